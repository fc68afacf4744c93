"""The Markdown page of measurements, with figures, made from the files that `s7 bench … --out` wrote."""

from collections.abc import Sequence
from pathlib import Path

from s7.bench.measures import BENCHMARKS, Benchmark, Measure, Row, ways_of
from s7.bench.records import Record, read
from s7.publishing import require
from s7.publishing.markdown import Document
from s7.publishing.text import number

ABOUT = {
    "layer": """\
One layer over a batch of sequences: forward, and forward with backward, which is the gradient of mean(y²) by the
layer's parameters and its input. A step is one event of one sequence. The ways of a case compute the same numbers from
the same parameters, which is checked before timing. `materialised` is the layer as one would first write it, with B_k
and C_k (and D_k, where it is full) over the whole sequence and an associative scan; – is where those would not fit, by
an estimate of six times their size against 4 GB and the memory at hand. Rates count 4·P·H² operations a step forward,
2·H³ more where D is full, and three times that forward and backward, whatever a way really does; sgemm is the best
square matrix product of NumPy and JAX just before or after a case. Memory is that of a process of its own, compiling
included. `mamba.py` or `mamba_ssm`, where it is installed, is Mamba's selective scan in PyTorch at the same width, with
P states for each channel: another function, for comparison of times only.""",
    "scan": """\
x_k = a_k x_{k-1} + v_k over a batch: forward, and forward with backward, the gradient of mean(|x|²) by a, v and the
initial state. `lax.scan` and `lax.associative_scan` are written plainly and differentiated by JAX. `copy` is np.copyto
between arrays that are in place before, of as many bytes as the recurrence must read and write at the least: three
arrays of the size of x forward, seven with backward. "To new memory" allocates its result each time, as scans must.""",
    "train": """\
A whole training step, with optimizer, of the model of each task's paper preset: depth, width, state, norm, dropout and
batch are the preset's, the batch capped at about 16,384 events. Inputs are random numbers through a linear encoder, the
answer is one of ten classes. Compiling includes tracing.""",
    "stream": """\
One event after another, with the layer and the model of each task's paper preset, but layer norm. `step in Python`
waits for each answer before the next event; `step in a scan` is the same function in a `lax.scan` over 1,000 events; a
chunk is one call for all of its events. A native call repacks its weights first, which does not pay
for a single event: unless the backend is chosen explicitly, such short sequences are left to XLA.""",
}


def write(files: Sequence[Path], out: Path, command: str) -> list[Path]:
    """Write the page and its figures. Returns the paths that were written, the page last."""
    records = {path.stem: read(path) for path in files}
    kinds = [record.name for record in records.values()]
    require("the page", ("matplotlib",))
    from s7.bench import figures
    from s7.publishing import plots

    written = []
    document = Document("Speed")
    document.made_by(command)
    document.paragraph(
        "Each part comes from the file that the command at its head writes. Times are the best of several runs in one "
        "process, in which the implementations take turns. In brackets: the time relative to the first implementation."
    )
    order, described = list(BENCHMARKS), set()
    for stem, record in sorted(records.items(), key=lambda item: order.index(item[1].name)):
        benchmark = BENCHMARKS[record.name]
        # Where two files are of one kind, their names tell them apart.
        of = stem if kinds.count(record.name) > 1 else ""
        document.heading(f"{benchmark.title}{of and f': {of}'}")
        document.command(record.machine["command"])
        document.paragraph(_machine(record))
        if record.name not in described:
            document.raw(ABOUT[record.name])
        described.add(record.name)
        for drawing in figures.drawings(record.name, record.rows):
            path = out.parent / "figures" / f"{out.stem}-{of and f'{of}-'}{drawing.name}.svg"
            written.append(plots.save(path, drawing.make))
            document.figure(drawing.title, path)
        for measure in benchmark.measures:
            if measure.paged and any(row.get(measure.field) is not None for row in record.rows):
                document.heading(measure.name, 3)
                add_table(document, benchmark, measure, record.rows)
    return [*written, document.write(out)]


def add_table(document: Document, benchmark: Benchmark, measure: Measure, rows: Sequence[Row]) -> None:
    """Add a table with a row for each case and a column for each implementation."""
    ways = ways_of(rows)
    titles = [column.title for column in benchmark.case]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        text = number(row.get(measure.field), 3)
        if measure.ratio and row.get(measure.ratio) is not None and row["way"] != ways[0]:
            text += f" ({number(row[measure.ratio], 3)})"
        cells.setdefault(benchmark.key(row), {})[row["way"]] = text
    lines = [[*case, *(found.get(way, "–") for way in ways)] for case, found in cells.items()]
    document.table([*titles, *ways], lines, align="<" * len(titles) + ">")


def _machine(record: Record) -> str:
    machine = record.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    cores = f"{machine['threads']} of {machine['cores']} cores, {machine['platform']}"
    rate = f"A square float32 matrix product runs at {number(machine['sgemm_gflops'], 3)} GFLOP/s."
    return f"{machine['processor']}, {cores}; {versions}. {rate}"
