"""Speed of encoding sound as spikes, on all spoken digits: `python -m benchmarks.spikes`."""

import time

import numpy as np

from s7.data.folder import DataFolder
from s7.events.spikes import SpikeEncoder
from s7.tasks.spoken_digits import FILES, HOW, RATE, encode, read_spoken


def main() -> None:
    """Read and encode every recording on all available cores."""
    start = time.perf_counter()
    path = DataFolder().require(*FILES, how=HOW)
    spoken = read_spoken(path)
    read, worked = time.perf_counter(), time.process_time()
    made = encode(spoken, SpikeEncoder(), path)
    taken, worked = time.perf_counter() - read, time.process_time() - worked
    spikes, sizes = len(made["t"]), np.diff(made["offsets"])
    minutes = len(spoken.audio) / RATE / 60
    print(f"{len(sizes):,} recordings, {minutes:.1f} minutes of sound, read in {read - start:.1f} s")
    print(f"encoded in {taken:.1f} s ({worked:.1f} s of CPU time), {60 * minutes / taken:,.0f}× real time")
    print(f"{spikes:,} spikes, {spikes / taken:,.0f} per second; {np.median(sizes):,.0f} in the median recording")


if __name__ == "__main__":
    main()
