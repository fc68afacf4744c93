"""A file that a client sends in parts."""

import tempfile
from pathlib import Path

from s7.live.protocol import POLICY, Closing


class Upload:
    """Writes the parts of a file to a folder.

    Args:
        folder: The folder. The file's name there is not the client's.
        name: The client's name of the file.
        size: Its size in bytes.
        limit: The largest size that is allowed.
    """

    def __init__(self, folder: Path, name: str, size: int, limit: int):
        if size > limit:
            raise Closing(POLICY, f"{name}: {size:,} bytes are more than the limit of {limit:,}")
        self.name, self._left = Path(name).name, size
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
        if self._left == 0:
            self._file.close()
        return self._left == 0

    def discard(self) -> None:
        """Delete the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)
