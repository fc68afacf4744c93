"""A file that a client sends in parts."""

import tempfile
import zipfile
from pathlib import Path

from s7.live.protocol import POLICY, Closing

# How many times larger than the limit of uploads an archive may be when it is unpacked.
EXPANSION = 16


class Upload:
    """Writes the parts of a file to a folder.

    Args:
        folder: The folder. The file's name there is not the client's.
        name: The client's name of the file.
        size: Its size in bytes.
        limit: The largest size that is allowed.
    """

    def __init__(self, folder: Path, name: str, size: int, limit: int):
        name = name.encode("utf-8", "replace").decode()  # JSON can hold halves of characters, which no message can
        if size > limit:
            raise Closing(POLICY, f"{name}: {size:,} bytes are more than the limit of {limit:,}")
        self.name, self._left, self._limit = Path(name).name, size, limit
        # The ending helps to recognise a format; everything else of the name stays out of the path.
        ending = "".join(c for c in Path(name).suffix[:12].lower() if c.isascii() and (c.isalnum() or c == "."))
        self._file = tempfile.NamedTemporaryFile(dir=folder, suffix=ending, delete=False)  # noqa: SIM115
        self.path = Path(self._file.name)

    def write(self, data: bytes) -> bool:
        """Add a part. Returns whether the file is complete."""
        if len(data) > self._left:
            self.discard()
            raise Closing(POLICY, f"{self.name}: more bytes than the upload announced")
        self._file.write(data)
        self._left -= len(data)
        if self._left:
            return False
        self._file.close()
        self._require_modest_content()
        return True

    def _require_modest_content(self) -> None:
        """Refuse archives (.npz) whose content is far larger than the archive may be."""
        if not zipfile.is_zipfile(self.path):
            return
        try:
            with zipfile.ZipFile(self.path) as archive:
                size = sum(member.file_size for member in archive.infolist())
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
            return  # reading it will say what is wrong
        if size > EXPANSION * self._limit:
            self.discard()
            raise Closing(POLICY, f"{self.name}: {size:,} bytes when unpacked are more than the limit")

    def discard(self) -> None:
        """Delete the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)
