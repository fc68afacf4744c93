"""Which classes are taken for which: a table that is also a picture, and a few answers in words."""

import numpy as np

from s7.publishing.text import count, number
from s7.report.markup import Safe, paragraph, table, tag, text
from s7.report.run import Run
from s7.report.traces import gaussian_parts, name_of_column

# Beyond so many classes there is room for percent only.
COUNTED = 15
MISTAKES = 3
ANSWERS = 8


def confusion(run: Run) -> Safe:
    """The confusion matrix: rows are the true classes, columns the predicted ones."""
    matrix = np.array(run.result["confusion"], dtype=np.int64)
    names = class_names(run, len(matrix))
    totals = matrix.sum(1)
    share = matrix / np.maximum(totals, 1)[:, None]
    in_percent = len(matrix) > COUNTED
    columns = [tag("th", tag("span", name), scope="col") for name in names]
    corner = tag("td", "true ↓ predicted →")
    head = tag("tr", corner, tag("th", "right", scope="col"), tag("th", "of", scope="col"), *columns)
    rows = []
    for n, name in enumerate(names):
        cells = [_cell(int(matrix[n, m]), float(share[n, m]), n == m, in_percent) for m in range(len(names))]
        right = f"{100 * share[n, n]:.1f} %" if totals[n] else "–"
        bar = tag("td", right, class_="bar", style=f"--p: {share[n, n]:.3f}")
        total = tag("td", f"{totals[n]:,}", class_="total")
        rows.append(tag("tr", tag("th", name, scope="row"), bar, total, *cells))
    size = "many" if in_percent else "few"
    body = tag("tbody", *(Safe(f"\n{row}") for row in rows))
    told = f"{count(int(totals.sum()), 'test answer')}, {100 * np.trace(matrix) / max(totals.sum(), 1):.2f} % right."
    told += " Cells are percent of their row." if in_percent else " Cells are counts; colour is the share of a row."
    whole = tag("table", tag("caption", told), tag("thead", head), body, class_=f"confusion {size}")
    return Safe(tag("div", whole, class_="wide", tabindex="0") + _mistakes(matrix, names))


def _cell(answers: int, share: float, hit: bool, in_percent: bool) -> Safe:
    if answers == 0:
        return Safe("<td></td>")
    shown = (f"{round(100 * share) or '·'}") if in_percent else f"{answers:,}"
    # Small shares must be seen: the colour grows faster than they do.
    return tag("td", shown, class_="hit" if hit else "miss", style=f"--p: {share**0.45:.2f}")


def _mistakes(matrix: np.ndarray, names: list[str]) -> Safe:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MISTAKES]
    pairs = [(n // len(names), n % len(names)) for n in order.tolist()]
    told = [
        Safe(f"<b>{text(names[true])}</b> for <b>{text(names[said])}</b> ({wrong[true, said]:,})")
        for true, said in pairs
        if wrong[true, said] > 0
    ]
    return paragraph("Most often mistaken: ", Safe("; ".join(told)), ".") if told else Safe()


def class_names(run: Run, classes: int) -> list[str]:
    """The classes' names, or their numbers."""
    names = [str(name) for name in run.result.get("classes") or ()]
    return names if len(names) == classes else [str(n) for n in range(classes)]


def spoken(run: Run) -> Safe:
    """What the model answered to a few whole sequences."""
    examples = run.examples[:ANSWERS]
    if examples[0].is_labelled:
        names = class_names(run, examples[0].outputs.shape[-1])
        rows = []
        for n, example in enumerate(examples, 1):
            logits = example.outputs.astype(float)
            chances = np.exp(logits - np.logaddexp.reduce(logits))
            true, said = int(example.targets.ravel()[0]), int(chances.argmax())
            mark = "✓" if true == said else "✗"
            rows.append([f"{n}", names[true], f"{mark} {names[said]}", f"{chances[said]:.1%}"])
        return table(["sequence", "true", "answer", "probability"], rows)
    heads = ["sequence"]
    width = min(3, examples[0].targets.shape[-1])
    for column in range(width):
        name = name_of_column(run, column)
        heads += [f"{name}: target", "answer"]
    rows = []
    for n, example in enumerate(examples, 1):
        means, sigma = gaussian_parts(example.outputs) if run.gaussian else (example.outputs, None)
        row = [f"{n}"]
        for column in range(width):
            doubt = "" if sigma is None else f" ± {number(2 * float(sigma[column]))}"
            row += [number(float(example.targets[column])), number(float(means[column])) + doubt]
        rows.append(row)
    return table(heads, rows)
