"""The line protocol: one event per line, as numbers separated by spaces or commas.

    t x y p          for models of a camera's events: microseconds, column, row, polarity
    [t] token        for models of tokens
    [t] v1 … vn      for models of numbers

Models with time gaps have a time in each line, other models have none. Empty lines and lines that start with # are
ignored.
"""

import numpy as np
from jaxtyping import Float, Int

from s7.live.inputs import Batch, Inputs

# A line is at most this many bytes. A file without line ends is thus not read into memory.
LONGEST = 1 << 20
# A number is at most this many bytes. An array of words has room for the longest of them in every place.
LONGEST_NUMBER = 64
# How much of a wrong line an error message quotes.
_QUOTED = 40


class Lines:
    """Converts text, as it arrives, to batches.

    Args:
        inputs: What the model reads.
        source: The name of the source, for error messages.
    """

    def __init__(self, inputs: Inputs, source: str):
        self.inputs, self.source = inputs, source
        self._number = 0
        self._rest = b""

    def feed(self, data: bytes) -> Batch | None:
        """The events of the lines that are complete with these bytes; None if there are none.

        Raises:
            ValueError: A line is not of the expected form. The message names its number.
        """
        whole, end, self._rest = (self._rest + data).rpartition(b"\n")
        batch = self._batch(whole) if end else None
        if len(self._rest) > LONGEST:
            raise ValueError(f"{self.source}: line {self._number + 1} is longer than {LONGEST:,} bytes")
        return batch

    def end(self) -> Batch | None:
        """The event of a last line without a line end."""
        rest, self._rest = self._rest, b""
        return self._batch(rest) if rest else None

    def _batch(self, text: bytes) -> Batch | None:
        lines = text.split(b"\n")
        first, self._number = self._number + 1, self._number + len(lines)
        words = [line.replace(b",", b" ").split() for line in lines]
        kept = [k for k, row in enumerate(words) if row and not row[0].startswith(b"#")]
        if not kept:
            return None
        numbers = np.array(kept) + first
        rows = self._rows([words[k] for k in kept], [lines[k] for k in kept], numbers)
        return self.inputs.of_rows(rows, lambda k: f"{self.source}: line {numbers[k]}")

    def _rows(
        self, words: list[list[bytes]], lines: list[bytes], numbers: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n columns"]:
        columns = len(self.inputs.columns)
        if all(len(row) == columns and max(map(len, row)) <= LONGEST_NUMBER for row in words):
            try:
                return np.array(words).astype(np.float64)
            except ValueError:
                pass
        for row, line, number in zip(words, lines, numbers, strict=True):
            if len(row) != columns or not all(map(_is_number, row)):
                text = line.strip().decode("utf-8", "backslashreplace")
                quoted = text if len(text) <= _QUOTED else text[:_QUOTED] + "…"
                wanted = f"{columns} {'number' if columns == 1 else 'numbers'}"
                raise ValueError(f"{self.source}: line {number} is {quoted!r}, expected {wanted}: {self.inputs.line}")
        raise AssertionError("every line is a row of numbers")


def _is_number(word: bytes) -> bool:
    if len(word) > LONGEST_NUMBER:
        return False
    try:
        np.array([word]).astype(np.float64)
    except ValueError:
        return False
    return True
