"""Upload of a shared model to the Hugging Face hub."""

from pathlib import Path

MISSING = "huggingface_hub is missing; to upload models, pip install 's7-ssm[hub]'"


def upload(folder: Path, name: str, *, private: bool = False) -> str:
    """Upload the files of a folder, making the repository if needed.

    Args:
        folder: The folder that `write_shared` wrote.
        name: The repository, org/name.
        private: Whether a new repository is private.

    Returns:
        The address of the commit.

    Raises:
        ModuleNotFoundError: If huggingface_hub is not installed.
        OSError: If the hub rejects the upload, or cannot be reached.
    """
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError:
        raise ModuleNotFoundError(MISSING) from None
    api = HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a model of s7"))
    except Exception as error:  # of several libraries, with several lines
        raise OSError(f"{name}: not uploaded: {' '.join(str(error).split())[:200]}") from None
