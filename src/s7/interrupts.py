"""Ctrl-C and SIGTERM during a run, from the first second. JAX is not imported.

Python runs signal handlers between bytecodes, so a handler waits while XLA compiles. A thread is told at once, through
Python's wakeup file descriptor, and decides: before the first training step nothing can be lost, so it ends the
process; afterwards the run stops after the current step, and the thread says so. A second signal ends the process.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STATUS = 130
FINISHING = "stopping after the current step or validation"


class Interrupts:
    """Whether the process was asked to stop.

    Attributes:
        requested: set by the first signal.
        early_exit: the message with which a signal ends the process; None once training steps are under way.
        finishing: the message for a signal after that.
    """

    def __init__(self, early_exit: str | None = None, finishing: str = FINISHING):
        self.requested = False
        self.early_exit, self.finishing = early_exit, finishing

    @contextmanager
    def installed(self) -> Iterator["Interrupts"]:
        """Handle the signals while the context lasts. Does nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._watch, args=(reader,), daemon=True, name="s7 interrupts")
        thread.start()
        try:
            yield self
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            writer.close()
            thread.join(timeout=1)
            reader.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def _watch(self, reader: socket.socket) -> None:
        with suppress(OSError):
            while number := reader.recv(1):
                if number[0] in SIGNALS:
                    self._notice()

    def _notice(self) -> None:
        if self.early_exit is not None:
            _exit(self.early_exit)
        if getattr(self, "_noticed", False):
            _exit("stopped at once")
        self._noticed = True
        _say(f"{self.finishing}; interrupt again to stop at once")


def _say(text: str) -> None:
    with suppress(OSError):
        # A progress bar hides the cursor and leaves it in the middle of a line.
        start = "\r\033[K\033[?25h" if sys.stderr.isatty() else ""
        os.write(2, f"{start}{text}\n".encode())


def _exit(text: str) -> None:
    _say(text)
    os._exit(STATUS)
