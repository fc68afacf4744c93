"""Batches that a thread reads ahead, so that a stream never waits for a slow source longer than it wants to."""

import queue
import threading
from collections.abc import Iterable

from s7.live.inputs import Batch

# Batches that are read ahead. Together with the size of a batch this bounds memory.
AHEAD = 8
_END = object()


class Feed:
    """Reads batches in a thread.

    The thread is a daemon: a process can end while a read of standard input blocks.

    Args:
        batches: The source. It is iterated in the thread.
        ahead: How many batches to read ahead.
    """

    def __init__(self, batches: Iterable[Batch], ahead: int = AHEAD):
        self._queue: queue.Queue = queue.Queue(ahead)
        self._stopped = threading.Event()
        self.is_over = False
        threading.Thread(target=self._read, args=(batches,), daemon=True, name="s7 feed").start()

    def get(self, timeout: float) -> Batch | None:
        """The next batch; None if there is none within `timeout` seconds, or at the end (`is_over`).

        Raises:
            Exception: What reading the source raised, after all batches before it.
        """
        if self.is_over:
            return None
        try:
            item = self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(item, Batch):
            return item
        self.is_over = True
        if isinstance(item, BaseException):
            raise item
        return None

    def close(self) -> None:
        """Let the thread end at its next batch."""
        self._stopped.set()

    def _read(self, batches: Iterable[Batch]) -> None:
        last: object = _END
        try:
            for batch in batches:
                if not self._put(batch):
                    return
        except Exception as error:  # it is raised again where the batches are used
            last = error
        self._put(last)

    def _put(self, item: object) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False
