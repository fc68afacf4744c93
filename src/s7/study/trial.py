"""The process of one trial: `python -m s7.study.trial SPEC`, where SPEC is a JSON file (see `TrialSpec`).

Events go to standard output as JSON lines. Everything else that is printed goes to standard error.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from s7.data.folder import DataFolder
from s7.job import Job
from s7.machine import keep_compiled_code, keep_freed_memory
from s7.run_folder import RunFolder
from s7.study.messages import EpochDone, Event, Failed, Finished, Started, Stopped, TrialSpec
from s7.study.rungs import Rungs
from s7.training import Callback, Diverged, Interrupted


class Events(Callback):
    """Sends events to a stream."""

    def __init__(self, stream: Any):
        self.stream = stream

    def send(self, event: Event) -> None:
        """Send an event at once."""
        self.stream.write(event.to_line())
        self.stream.flush()

    def on_epoch_end(self, trainer, progress):
        best = progress.best_epoch == progress.epoch
        self.send(EpochDone(progress.epoch, progress.epochs, progress.valid, best))


def run(spec: TrialSpec, events: Events) -> int:
    """Run a trial, sending events.

    Returns:
        The exit status: 0 if the run is finished, 1 if it failed, 130 if it was asked to stop.
    """
    try:
        job = Job(
            spec.task,
            spec.model,
            spec.preset,
            spec.protocol,
            spec.seed,
            settings=spec.settings,
            test=spec.test,
            variant=spec.variant,
            minutes=spec.minutes,
        )
        folder = RunFolder(Path(spec.folder))
        if folder.is_begun:
            job = _resumed(job, folder)
        events.send(Started(resumed=folder.is_begun))
        data = DataFolder(None if spec.data is None else Path(spec.data))
        trained = job.run(folder.path, data, resume=True, callbacks=(events, Rungs(spec.rungs, events.send)), say=print)
    except Interrupted:
        events.send(Stopped())
        return 130
    except BrokenPipeError:  # the study's process was killed; the run can be resumed
        return 1
    except Exception as error:
        traceback.print_exc()
        events.send(Failed(_one_line(error), isinstance(error, Diverged)))
        return 1
    events.send(Finished(trained.result["valid"], trained.result["test"]))
    return 0


def _resumed(job: Job, folder: RunFolder) -> Job:
    """The job of the run in the folder, which must be the same as `job`."""
    begun = Job.of(folder.record().config)
    for name in ("task", "model", "preset", "protocol", "seed", "test", "variant", "minutes"):
        mine, theirs = getattr(job, name), getattr(begun, name)
        if mine != theirs:
            raise ValueError(f"{folder.path}: holds a run with {name} {theirs!r}, not {mine!r}; choose another folder")
    different = begun.difference(job.settings)
    if different is not None:
        raise ValueError(f"{folder.path}: holds a run with {different}; choose another folder")
    return begun


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    expected = isinstance(error, ValueError | OSError | ArithmeticError) and message
    return message if expected else f"{type(error).__name__}: {message}".removesuffix(": ")


def _stop_without(parent: int) -> None:
    """Stop, with a checkpoint, when the process of the study is gone, so that another one can resume the trial."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="s7 study").start()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial that the specification on the command line describes."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    # Output of the data readers, the trainer or native code must not mix with the events.
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _stop_without(os.getppid())
    keep_freed_memory()
    keep_compiled_code()
    return run(TrialSpec.read(Path(path)), Events(stream))


if __name__ == "__main__":
    sys.exit(main())
