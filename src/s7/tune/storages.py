"""Where the trials of a search are stored: a journal file, or a database that workers on many machines share."""

import fcntl
import os
import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

INSTALL = "pip install 's7-ssm[tune]'"
# Seconds to connect to a database.
CONNECT = 20.0
# Drivers of PostgreSQL in the order of preference, for URLs that name none.
DRIVERS = ("psycopg", "psycopg2", "pg8000")
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}

T = TypeVar("T")


def require_optuna() -> None:
    """Raise a ValueError with the command that installs Optuna unless it is installed."""
    if find_spec("optuna") is None:
        raise ValueError(f"s7 tune needs optuna, which is not installed: {INSTALL}")


class JournalLock:
    """An exclusive lock of a journal file, which the operating system releases when its process ends, even by SIGKILL.

    A line that a killed process left incomplete is removed, since nothing could be appended to it.
    """

    def __init__(self, journal: Path):
        self._journal, self._handle = journal, -1
        self._thread = threading.Lock()

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._thread.acquire()
        self._handle = os.open(f"{self._journal}.lock", os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        _end_with_a_line(self._journal)
        return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._handle)
        self._thread.release()


def journal(path: Path) -> Any:
    """Optuna's storage in a journal file, which is created if it does not exist."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not the journal of a search ({error}); choose another folder") from None


def database(url: str) -> Any:
    """Optuna's storage in a database, whose tables are created if they do not exist.

    Args:
        url: The address for SQLAlchemy, such as postgresql://user:password@host/name.

    Raises:
        ValueError: If the address is not valid or its driver is not installed.
        OSError: If the database cannot be reached within 20 seconds.
    """
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

    try:
        address = make_url(url)
    except ArgumentError:
        raise ValueError(f"--storage {url}: expected a URL such as postgresql://user:password@host/name") from None
    shown = address.render_as_string(hide_password=True)
    if address.drivername == "postgresql":
        driver = next((name for name in DRIVERS if find_spec(name) is not None), None)
        if driver is None:
            raise ValueError(f"--storage {shown}: needs a driver for PostgreSQL: {INSTALL}")
        address = address.set(drivername=f"postgresql+{driver}")
    opened = address.render_as_string(hide_password=False)
    try:
        within(CONNECT, lambda: _connect(address))
        # Tables of older versions of Optuna are upgraded by its own command, never silently.
        return RDBStorage(opened, engine_kwargs={"pool_pre_ping": True})
    except TimeoutError:
        raise OSError(f"--storage {shown}: no answer within {CONNECT:g} s") from None
    except (NoSuchModuleError, ImportError) as error:
        raise ValueError(f"--storage {shown}: {_reason(error)}; install its driver, or {INSTALL}") from None
    except (SQLAlchemyError, RuntimeError, OSError) as error:
        raise OSError(f"--storage {shown}: cannot be used ({_reason(error)})") from None


@contextmanager
def one_line_errors(where: str):
    """Turn errors of a storage into an OSError of one line."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        raise OSError(f"{where}: the storage failed ({_reason(error)}); repeat the command to continue") from None


def _connect(address: Any) -> None:
    """Connect to a database once; raises an error if that is not possible."""
    from sqlalchemy import create_engine

    if address.host:
        # Some drivers do not close a socket that could not connect.
        port = address.port or _PORTS.get(address.get_backend_name())
        if port is not None:
            socket.create_connection((address.host, port), CONNECT).close()
    engine = create_engine(address)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`; raises TimeoutError if it takes longer. The thread is then abandoned."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="s7 storage")
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]


def _reason(error: BaseException) -> str:
    """The first line of an error; SQLAlchemy's and Optuna's wrap that of the driver."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _end_with_a_line(path: Path) -> None:
    """Cut off an incomplete last line."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        end = file.seek(-1, os.SEEK_END) + 1
        if file.read(1) == b"\n":
            return
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)
