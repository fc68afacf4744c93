"""Generate data in blocks on all usable cores.

A block depends only on its index, so the result does not depend on the number of processes, and asking for more blocks
does not change the first ones.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from s7.machine import usable_cores
from s7.tasks.task import Say

Made = TypeVar("Made")

# A process takes a second or two to start; fewer blocks than this are generated faster in the current one.
FEW = 16
# Seconds between two progress messages.
EVERY = 10.0


def make_blocks(make: Callable[[int], Made], blocks: int, say: Say, processes: int | None = None) -> list[Made]:
    """Return [make(0), make(1), …].

    Args:
        make: Generates a block from its index. It must be picklable.
        blocks: The number of blocks.
        say: Receives progress messages.
        processes: By default one per usable core, or one if there are few blocks.
    """
    if processes is None:
        processes = 1 if blocks < FEW else usable_cores()
    made: list[Made] = []
    started = said = time.perf_counter()
    for block in _in_order(make, blocks, processes):
        made.append(block)
        now = time.perf_counter()
        if now - said > EVERY and len(made) < blocks:
            said = now
            left = (now - started) / len(made) * (blocks - len(made))
            say(f"{100 * len(made) // blocks} % generated, about {left:.0f} s left")
    return made


def _in_order(make: Callable[[int], Made], blocks: int, processes: int) -> Iterator[Made]:
    if processes == 1:
        yield from map(make, range(blocks))
        return
    # Not forked: a fork of a process in which JAX runs can hang.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield from pool.map(make, range(blocks))
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process that generates data died: it was killed or ran out of memory, or the main script runs its work "
            "at import; put that under if __name__ == '__main__'"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
