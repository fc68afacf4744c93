"""The Markdown page with tables and figures of files saved by `s7 bench … --out`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from s7.bench.measures import BENCHMARKS, Benchmark, Measure, Row, implementations_of
from s7.bench.records import Record, read
from s7.publishing import require
from s7.publishing.markdown import Document
from s7.publishing.text import number

ABOUT = {
    "layer": """\
One layer over a batch of sequences: the forward pass alone, and forward with backward, which computes the gradient of
mean(y²) with respect to the layer's parameters and its input. A step is one event of one sequence. All implementations
of a case compute the same numbers from the same parameters, which is checked before timing. `materialised` writes out
B_k and C_k (and D_k, if it is full) over the whole sequence and uses an associative scan; – marks cases that would not
fit into memory, estimated as six times the size of these matrices and limited to 4 GB. Rates count 4·P·H² operations
per step forward, 2·H³ more if D is full, and three times that for forward and backward, whatever an implementation
really computes; sgemm is the best square matrix product of NumPy and JAX just before or after a case. Memory is
measured in a separate process and includes compilation. `mamba.py` or `mamba_ssm`, if installed, is Mamba's selective
scan in PyTorch at the same width with P states per channel: it computes another function and only its time is
comparable.""",
    "block": """\
One block over a batch of sequences, with dropout, as in training: norm, layer, gate, dropout and skip. `factored` has
oscillating states, Factored(rank=32), layer norm, a gate, dropout 0.1 and a skip. `static, two directions` is the same
with the Static form and a second layer that reads from the end. `tokens, stride 8` is a first block: its events are
rows of a table of 700 vectors, with gaps, and it has one output per 8 events. `factored layer alone` has no norm, gate,
dropout or skip. The gradient is that of mean(out²) with respect to the block's parameters and its input. A step is one
event. Rates count one multiply-add per weight of each matrix, wherever it is applied, three times for forward and
backward; what acts on single tokens counts once per row of the table. sgemm is the best square matrix product of NumPy
and JAX just before or after a case. The share of dropout comes from the same block without dropout. The speed-up is
that of the native kernels, measured in processes with one thread and with all. The native gradient computes the outputs
of the layers and the products of the gate again instead of storing them: 90,112 multiply-adds per event of `factored`
where 70,656 are counted, and 51,200 of `static, two directions` where 43,008 are counted. At the speed of sgemm, and if
nothing else took time, their rates would be 0.78 and 0.84.""",
    "scan": """\
x_k = a_k x_{k-1} + v_k over a batch: the forward pass alone, and forward with backward, which computes the gradient of
mean(|x|²) with respect to a, v and the initial state. `lax.scan` and `lax.associative_scan` are plain implementations
that JAX differentiates. `copy` is np.copyto between allocated arrays, of as many bytes as the recurrence has to read
and write at least: three arrays of the size of x forward, seven with backward. `copy to new memory` allocates its
result each time, as scans do.""",
    "train": """\
A complete training step, including the optimizer, with the settings of a preset: depth, width, state, norm, dropout and
batch size. Models of the preset `paper` read random vectors through a linear encoder and choose among ten classes, with
at most 16,384 events per batch. Models of the preset `ours` have the encoder, head, pooling and objective of their task
and read random data of the same kind and typical length, with at most 65,536 events per batch. Rates count one
multiply-add per weight of each matrix, wherever it is applied, three times for forward and backward. Compilation
includes tracing. Memory is what the compiled program plans for its arguments, results and temporary arrays.""",
    "models": """\
A complete training step of other models with the preset `ours` of the task, on random data of the same kind, in
processor time. `taskset -c 0` before the command limits it to one core, as here. Operations are those of the traced
step, including activations, norms and the optimizer: a multiply-add is two, everything else one per number. The last
column divides the time of a step by the time that its arithmetic would take at a fifth of the speed of sgemm.""",
    "files": """\
Files of simulated events, read on one core. `blocks` decodes a file piece by piece without keeping the events, `whole`
returns all events at once, and `copy` reads the file into memory without decoding it. Times are those of the processor.
""",
    "stream": """\
Streaming inference with the layer and the model of each task's paper preset, with layer norm instead of batch norm, and
with pooled models of event cameras. `step in Python` waits for each answer before the next event; `step in a scan` is
the same function in a `lax.scan` over 1,000 events; a chunk is one call with many events. Each `native` call repacks
the weights, which does not pay off for a single event: such short sequences run on XLA unless the backend is chosen
explicitly. `s7.Stream` packs them once. `onnxruntime` runs the exported step on one thread. The mode `push` feeds
events one by one without asking for answers, with gaps; its percentiles are those of the best of eight series of 20,000
single calls. All series push the same events from the same state, so the shortest of the eight times at each position
is what that event takes without the interruptions of the machine (timer ticks, other processes); the last three tables
have its percentiles. `wait` is a Python loop that watches the clock for the median time of a push: its tail comes from
interruptions alone. The paper's models read all their weights at each event, about 1.1 MB for dvs-gesture and 4.5 MB
for walker2d, so single events are limited by the bandwidth of the cache that holds them; in a chunk, 16 events share
what was read. In a model that pools, `s7.Stream` runs the blocks above the first one by one at the events that follow
the end of a window, so that no event takes much longer than the others.""",
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
        "Each section shows the command that made its measurements. Times are the best of several runs in one process, "
        "in which the implementations take turns. Brackets: the time relative to the first implementation. To compare "
        "two versions of s7, run the same command in turn with both and compare the rows of the files with the same "
        "case and implementation; a file is one JSON line about the machine and one line per row."
    )
    order, described = list(BENCHMARKS), set()
    for stem, record in sorted(records.items(), key=lambda item: order.index(item[1].name)):
        benchmark = BENCHMARKS[record.name]
        # If two files have the same benchmark, their names distinguish them.
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
        if record.name == "block":
            for sentence in _limits(record.rows):
                document.paragraph(sentence)
        if record.name == "models":
            add_models(document, benchmark, record.rows)
            continue
        for measure in benchmark.measures:
            if measure.paged and any(row.get(measure.field) is not None for row in record.rows):
                document.heading(measure.name, 3)
                add_table(document, benchmark, measure, record.rows)
    return [*written, document.write(out)]


def add_table(document: Document, benchmark: Benchmark, measure: Measure, rows: Sequence[Row]) -> None:
    """Add a table with a row for each case and a column for each implementation."""
    names = implementations_of(rows)
    titles = [column.title for column in benchmark.case]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        text = number(row.get(measure.field), 3)
        if measure.ratio and row.get(measure.ratio) is not None and row["implementation"] != names[0]:
            text += f" ({number(row[measure.ratio], 3)})"
        cells.setdefault(benchmark.key(row), {})[row["implementation"]] = text
    lines = [[*case, *(found.get(name, "–") for name in names)] for case, found in cells.items()]
    document.table([*titles, *names], lines, align="<" * len(titles) + ">")


def add_models(document: Document, benchmark: Benchmark, rows: Sequence[Row]) -> None:
    """Add a table for each case, with a row for each model, fastest first, and a column for each measure."""
    measured = sorted((row for row in rows if "skipped" not in row), key=lambda row: row["step_ms"])
    fields = [measure.field for measure in benchmark.measures]
    for case in dict.fromkeys(benchmark.key(row) for row in rows if "skipped" not in row):
        task, batch, length = case
        first = next(row["implementation"] for row in rows if benchmark.key(row) == case)
        document.paragraph(f"{task}, batches of {batch} sequences of {length} events:")
        lines = [
            [row["implementation"], *(number(row[name], 3) for name in ("parameters", *fields))]
            for row in measured
            if benchmark.key(row) == case
        ]
        names = [measure.name.replace("the first model", first) for measure in benchmark.measures]
        heads = ["model", "parameters", *names]
        document.table(heads, lines, align="<>")
    skipped = [f"{row['implementation']} on {row['task']}: {row['skipped']}" for row in rows if "skipped" in row]
    if skipped:
        document.list(skipped)


def _limits(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what sgemm allows where XLA already runs at more than half its speed."""
    rates: dict[str, dict[str, float]] = {}
    for row in rows:
        rates.setdefault(row["case"], {})[row["implementation"]] = row["forward_of_sgemm"]
    for case, of in rates.items():
        if not {"native", "xla"} <= of.keys() or of["xla"] <= 0.5:
            continue
        native, xla, ratio = (number(q, 3) for q in (of["native"], of["xla"], of["native"] / of["xla"]))
        yield (
            f"The forward pass of `{case}` runs at {xla} of the speed of sgemm on XLA and at {native} with the native "
            f"kernels, which is {ratio} times as fast. All counted operations belong to matrix products, so sgemm "
            f"bounds the rate: at most {number(1 / of['xla'], 3)} times XLA. Twice as fast as XLA would be "
            f"{number(2 * of['xla'], 3)} times sgemm."
        )


def _machine(record: Record) -> str:
    machine = record.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    cores = f"{machine['threads']} of {machine['cores']} cores, {machine['platform']}"
    rate = f"A square float32 matrix product runs at {number(machine['sgemm_gflops'], 3)} GFLOP/s."
    return f"{machine['processor']}, {cores}; {versions}. {rate}"
