"""Predictions for whole sequences: the confusion matrix, and a few examples in a table."""

import numpy as np
from markupsafe import Markup

from s7.publishing.pages import Cell, Confusion, Paragraph, Part, Table
from s7.publishing.text import MISSING, count, number
from s7.report.predictions import column_name, gaussian_parts
from s7.report.run import Run

# With more classes there is only room for percent.
COUNTED = 15
CONFUSED = 3
EXAMPLES = 8


def confusion(run: Run) -> list[Part]:
    """The confusion matrix: rows are true classes, columns predicted ones."""
    matrix = np.array(run.result.confusion, dtype=np.int64)
    names = class_names(run, len(matrix))
    totals = matrix.sum(1)
    share = matrix / np.maximum(totals, 1)[:, None]
    in_percent = len(matrix) > COUNTED
    rows = []
    for n, name in enumerate(names):
        cells = [_cell(int(matrix[n, m]), float(share[n, m]), n == m, in_percent) for m in range(len(names))]
        recall = Cell(f"{100 * share[n, n]:.1f} %" if totals[n] else MISSING, float(share[n, n]), True)
        rows.append((name, recall, f"{totals[n]:,}", cells))
    correct = 100 * np.trace(matrix) / max(totals.sum(), 1)
    caption = f"{count(int(totals.sum()), 'test prediction')}, {correct:.2f} % correct."
    caption += " Cells are percent of their row." if in_percent else " Cells are counts; colour is the share of a row."
    return [Confusion(caption, names, rows, compact=in_percent), *_most_confused(matrix, names)]


def _cell(predictions: int, share: float, hit: bool, in_percent: bool) -> Cell:
    if predictions == 0:
        return Cell("", 0.0, hit)
    shown = f"{round(100 * share) or '·'}" if in_percent else f"{predictions:,}"
    # The colour grows faster than the share, so that small shares are seen.
    return Cell(shown, share**0.45, hit)


def _most_confused(matrix: np.ndarray, names: list[str]) -> list[Part]:
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSED]
    pairs = [(n // len(names), n % len(names)) for n in order.tolist()]
    shown = [
        Markup("<b>{}</b> taken for <b>{}</b> ({:,})").format(names[true], names[predicted], wrong[true, predicted])
        for true, predicted in pairs
        if wrong[true, predicted] > 0
    ]
    return [Paragraph(Markup("Most frequent errors: {}.").format(Markup("; ").join(shown)))] if shown else []


def class_names(run: Run, classes: int) -> list[str]:
    """The names of the classes, or their numbers."""
    return list(run.result.classes) if len(run.result.classes) == classes else [str(n) for n in range(classes)]


def example_predictions(run: Run) -> Table:
    """What the model predicts for a few whole sequences."""
    examples = run.examples[:EXAMPLES]
    rows: list[list[str]] = []
    if examples[0].is_labelled:
        names = class_names(run, examples[0].outputs.shape[-1])
        for n, example in enumerate(examples, 1):
            logits = example.outputs.astype(float)
            probabilities = np.exp(logits - np.logaddexp.reduce(logits))
            true, predicted = int(example.targets.ravel()[0]), int(probabilities.argmax())
            mark = "✓" if true == predicted else "✗"
            rows.append([f"{n}", names[true], f"{mark} {names[predicted]}", f"{probabilities[predicted]:.1%}"])
        return Table(["sequence", "true", "predicted", "probability"], rows)
    heads = ["sequence"]
    width = min(3, examples[0].targets.shape[-1])
    for column in range(width):
        heads += [f"{column_name(run, column)}: target", "prediction"]
    for n, example in enumerate(examples, 1):
        means, sigma = gaussian_parts(example.outputs) if run.gaussian else (example.outputs, None)
        row = [f"{n}"]
        for column in range(width):
            band = "" if sigma is None else f" ± {number(2 * float(sigma[column]))}"
            row += [number(float(example.targets[column])), number(float(means[column])) + band]
        rows.append(row)
    return Table(heads, rows)
