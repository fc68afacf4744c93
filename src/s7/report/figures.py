"""Figures as SVG that takes its colours and its font from the page around it.

Matplotlib writes fixed colours. Each figure is drawn in stand-ins that mean a role (text, grid, a series), and the
stand-ins are then replaced by CSS variables: the same picture follows the reader's light or dark theme.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from s7.report.markup import Safe

SERIES = 8
ROLES = ["--ink", "--soft", "--faint", "--truth", *(f"--c{n}" for n in range(1, SERIES + 1))]
COLOUR = {role: f"#0101{n:02x}" for n, role in enumerate(ROLES)}
INK, SOFT, FAINT, TRUTH = (COLOUR[role] for role in ROLES[:4])
COLOURS = [COLOUR[role] for role in ROLES[4:]]
WIDTH = 8.0
# More than a screen has columns: nothing is lost that could be seen.
POINTS = 2000
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "image.composite_image": False,
    # Names come from files, and a dollar in them is a dollar.
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.4,
    "lines.solid_joinstyle": "round",
}


def draw(name: str, make: Callable[..., Figure], *arguments: Any) -> Safe:
    """The figure that `make` makes, as SVG inside HTML: as wide as its place, names of its own, the page's colours."""
    buffer = io.StringIO()
    with rc_context(STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The browser has the letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = make(*arguments)
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    opening, rest = svg.split(">", 1)
    svg = re.sub(r' (width|height|version|xmlns(:\w+)?)="[^"]*"', "", opening) + ">" + rest
    svg = _own_names(svg.replace("xlink:href", "href"), name)
    svg = re.sub(r'\b(?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), svg)
    for role, colour in COLOUR.items():
        svg = re.sub(rf"(fill|stroke): {colour}", rf"\1: var({role})", svg)
    return Safe(re.sub(r"\s*\n\s*", "\n", svg))


def _own_names(svg: str, name: str) -> str:
    """What is referred to gets a name that no other figure of the page has; all else needs none."""
    used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    own = {old: f"{name}-{n}" for n, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{own[found[1]]}"' if found[1] in own else "", svg)
    return re.sub(r'(url\(|href=")#([^")]+)', lambda found: f"{found[1]}#{own[found[2]]}", svg)


def thin(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """A long line by the lowest and the highest point of each short stretch, so that no peak is lost."""
    if len(y) <= points:
        return x, y
    low, high = (_chosen(y, points // 2, pick) for pick in (np.argmin, np.argmax))
    keep = np.unique(np.concatenate([low, high]))
    return x[keep], y[keep]


def envelope(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, points: int = POINTS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A long band by its outermost points in each short stretch."""
    if len(x) <= points:
        return x, low, high
    lowest, highest = _chosen(low, points // 2, np.argmin), _chosen(high, points // 2, np.argmax)
    return x[lowest], low[lowest], high[highest]


def _chosen(y: np.ndarray, stretches: int, pick: Callable[..., Any]) -> np.ndarray:
    """Of each stretch the place that is picked; what is not a number is picked last."""
    size = -(-len(y) // stretches)
    places = np.minimum(np.arange(-(-len(y) // size) * size), len(y) - 1).reshape(-1, size)
    worst = np.inf if pick is np.argmin else -np.inf
    values = np.where(np.isfinite(y), y, worst)[places]
    return places[np.arange(len(places)), pick(values, axis=1)]


def log_scale(axes: Axes, low: float, high: float, which: str = "y") -> None:
    """A logarithmic axis that always has a few numbers on it."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    (axes.set_yscale if which == "y" else axes.set_xscale)("log")
    ratio = high / low
    crowded = 4 if which == "x" else 6
    if ratio < 4:
        axis.set_major_locator(MaxNLocator(crowded))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < 100 else (1.0,), numticks=crowded + 2))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if value < 1e5 else f"{value:.3g}"))


def whole_numbers(axes: Axes) -> None:
    """No half epochs."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
