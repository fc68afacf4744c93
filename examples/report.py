"""The demo's report: one HTML file that needs nothing else, neither a network nor a script."""

import html
import os
from pathlib import Path

import jax

import s7
from examples.comparison import DATA_SEED, SIZES, Comparison
from examples.figures import draw

STYLE = """
:root { color-scheme: light dark; --page: #fdfdfb; --card: #ffffff; --ink: #22252b; --soft: #5b616c; --faint: #d8dade;
  --truth: #6d7380; --persistence: #8a8f99; --lstm: #c2570c; --s7: #1d5fd1; }
@media (prefers-color-scheme: dark) { :root { --page: #14161a; --card: #1b1e24; --ink: #e4e6ea; --soft: #a0a6b1;
  --faint: #3a3f48; --truth: #a9afba; --persistence: #868c97; --lstm: #f59a4e; --s7: #74a8ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 1.05rem/1.6 Charter, "Bitstream Charter", "Source Serif 4", Cambria, Georgia, serif; }
main { max-width: 52rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; text-wrap: balance; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; }
p, figcaption { max-width: 42rem; }
.lead { font-size: 1.2rem; color: var(--soft); margin: 0 0 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
table, svg text, code { font-family: system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif !important; }
table { font-size: .95rem; }
th, td { padding: .45rem .75rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); }
th:first-child, td:first-child, .settings td { text-align: left; }
.settings td { white-space: normal; vertical-align: top; }
.settings td:first-child { color: var(--soft); white-space: nowrap; }
tr.best td { font-weight: 650; }
.dot { display: inline-block; width: .65em; height: .65em; border-radius: 50%; margin-right: .55em; }
figure { margin: 1rem 0 0; }
figure .wide { background: var(--card); border: 1px solid var(--faint); border-radius: .6rem; padding: .75rem; }
figure svg { display: block; width: 100%; min-width: 38rem; height: auto; }
figcaption { color: var(--soft); font-size: .95rem; margin-top: .6rem; }
code { font-family: ui-monospace, Menlo, Consolas, monospace !important; font-size: .88em; }
"""

INTRODUCTION = """The FitzHugh–Nagumo equations describe a neuron that rests, fires and recovers. A model sees the
voltage <i>v</i> alone, 1,000 samples of it, and at each predicts the next. The recovery variable <i>w</i> is hidden:
it has to be worked out from the past."""

CAUTION = """Each model is taken from the epoch that was best on the validation sequences; the test sequences were used
once, for this table. It is one seed: others move the errors of the trained models by a third or so, so try a
few (<code>python -m examples.demo --seed 1</code>) before reading much into small differences."""

TITLES = {"curves": "Learning", "trace": "Prediction", "spectrum": "Memory"}

CAPTIONS = {
    "curves": """Error on the validation sequences (strong lines) and on the training sequences, averaged over each
epoch (faint), against training time. Compilation is not counted. The learning rate rises briefly, then falls to zero
along a cosine.""",
    "trace": """Above, the simulated voltage and the predictions, which cover it. Below, prediction minus truth,
enlarged a thousand times; the first moments, when there is no past to judge <i>w</i> from, may leave the frame. Right,
one spike, with a dot at every sample.""",
    "spectrum": """The factor |<i>a<sub>k</sub></i>| by which S7 multiplies each state at every step of that sequence:
a dot at the median, a bar over the middle nine tenths. Near 1 a state remembers for long (0.98: about 50 steps), at 0
it forgets at once. A long bar is selectivity: the state keeps or drops its past depending on what comes in.""",
}


def write(comparison: Comparison, path: Path) -> None:
    """Writes the page beside its place and moves it there: a reader never meets half of one."""
    page = render(comparison)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def render(comparison: Comparison) -> str:
    """The page."""
    figures = draw(comparison)
    parts = "\n".join(f"<h2>{title}</h2>\n{figure(figures[name], name)}" for name, title in TITLES.items())
    best = min(comparison.rows, key=lambda row: row.valid)
    nothing = comparison.rows[0]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>S7 on a spiking neuron</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>S7 on a spiking neuron</h1>
<p class="lead">In {best.seconds:.0f} seconds of training, {html.escape(best.name)} with {best.parameters:,}
parameters predicts the next sample {nothing.test / best.test:.0f} times better than repeating the last one.</p>
<p>{INTRODUCTION}</p>
<div class="wide">{result_table(comparison)}</div>
<p>{CAUTION}</p>
{parts}
<h2>Settings</h2>
{settings_table(comparison)}
</main>
</body>
</html>
"""


def figure(svg: str, name: str) -> str:
    """A picture with its caption, which also stands for it where it cannot be seen."""
    svg = svg.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-caption" ', 1)
    return (
        f'<figure><div class="wide">{svg}</div><figcaption id="{name}-caption">{CAPTIONS[name]}</figcaption></figure>'
    )


def result_table(comparison: Comparison) -> str:
    """The same numbers as on the terminal."""
    best = min(comparison.rows, key=lambda row: row.valid)
    heads = ("model", "parameters", "seconds", "validation RMSE", "test RMSE", "test MSE")
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for row in comparison.rows:
        dot = f'<span class="dot" style="background: var(--{row.name.lower()})"></span>'
        cells = [dot + html.escape(row.name), f"{row.parameters:,}", f"{row.seconds:.1f}"]
        cells += [f"{number:.2e}" for number in (row.valid, row.test, row.test**2)]
        mark = ' class="best"' if row is best else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def settings_table(comparison: Comparison) -> str:
    """What it takes to repeat this."""
    train, valid, test = SIZES
    lines = {
        "data": f"{train} training, {valid} validation, {test} test sequences, seed {DATA_SEED}, fourth-order "
        "Runge–Kutta; t = 0 … 400 in 1,001 samples",
        "target": "the difference to the next sample, added to the last one",
    }
    for entry in comparison.entries:
        recipe = entry.recipe
        shape = ", ".join(f"{name} {value}" for name, value in entry.settings.items())
        lines[entry.name] = (
            f"{shape}; AdamW, peak rate {recipe.learning_rate:g}, decay {recipe.weight_decay:g}, "
            f"batch {recipe.batch}, {recipe.epochs} epochs, gradient norm at most {recipe.clip:g}; "
            f"compiled in {entry.fit.compile_seconds:.1f} s"
        )
    lines["seed"] = f"{comparison.seed}, of the models and their batches"
    lines["versions"] = f"s7 {s7.__version__}, JAX {jax.__version__} on {jax.default_backend()}"
    lines["command"] = f"python -m examples.demo --seed {comparison.seed}"
    rows = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in lines.items()
    )
    return f'<table class="settings">\n{rows}\n</table>'
