"""Matplotlib figures as SVG: inside a page, where they take the page's colours and font, or as files.

Matplotlib writes fixed colours. Figures are drawn with placeholder colours, each for a role (text, grid, a series).
In a page the placeholders become CSS variables, so that a figure follows the reader's light or dark theme; in a file
they become the colours of the light theme.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from s7.publishing.colours import LIGHT, ROLES
from s7.storage import write_atomically

COLOUR = {role: f"#0101{n:02x}" for n, role in enumerate(ROLES)}
INK, SOFT, FAINT, TRUTH = (COLOUR[role] for role in ROLES[:4])
COLOURS = [COLOUR[role] for role in ROLES[4:]]
# Lines and dots also differ by these, for readers who cannot distinguish the colours.
MARKERS = "os^DvPX*"
# Inches: the width of a page's column.
WIDTH = 8.0
# Points of a line: more than a screen has columns.
POINTS = 2000
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "image.composite_image": False,
    # Labels come from files, so dollar signs are not mathematics.
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


class Svg(str):
    """An SVG element that a page includes as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """The element: templates do not escape it."""
        return self


def draw(name: str, make: Callable[..., Figure], *arguments: Any) -> Svg:
    """Draw a figure for a page.

    Args:
        name: the prefix of the ids in the SVG. No two figures of a page may share it.
        make: the function that makes the figure. It is called with `arguments` while the style is set.

    Returns:
        The SVG element without a fixed size, with CSS variables for colours.
    """
    buffer = io.StringIO()
    with rc_context(STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The browser has the letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = make(*arguments)
        # A date or a version would change the file of an unchanged figure.
        no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    opening, rest = svg.split(">", 1)
    svg = re.sub(r' (width|height|version|xmlns(:\w+)?)="[^"]*"', "", opening) + ">" + rest
    svg = _prefix_ids(svg.replace("xlink:href", "href"), name)
    svg = re.sub(r'\b(?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), svg)
    for role, colour in COLOUR.items():
        svg = re.sub(rf"(fill|stroke): {colour}", rf"\1: var(--{role})", svg)
    return Svg(re.sub(r"\s*\n\s*", "\n", svg))


def save(path: Path, make: Callable[..., Figure], *arguments: Any) -> Path:
    """Draw a figure and write it to an SVG file, in the light colours on a white ground."""
    svg = draw(path.stem, make, *arguments)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None, "matplotlib writes a viewBox"
    opening, rest = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], svg).split(">", 1)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{box[1]}pt" height="{box[2]}pt"'
    ground = f'<rect width="100%" height="100%" fill="{LIGHT["card"]}"/>'
    style = "<style>text { font-family: system-ui, 'Segoe UI', Roboto, Arial, sans-serif !important }</style>"
    write_atomically(path, f"{opening.replace('<svg', f'<svg {size}', 1)}>{style}{ground}{rest}\n".encode())
    return path


def _prefix_ids(svg: str, name: str) -> str:
    """Rename the ids that are referred to, so that they are unique in a page, and drop all others."""
    used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    own = {old: f"{name}-{n}" for n, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{own[found[1]]}"' if found[1] in own else "", svg)
    return re.sub(r'(url\(|href=")#([^")]+)', lambda found: f"{found[1]}#{own[found[2]]}", svg)


def thin(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Reduce a long line to the lowest and the highest point of each interval, so that no peak is lost."""
    if len(y) <= points:
        return x, y
    low, high = (_chosen(y, points // 2, pick) for pick in (np.argmin, np.argmax))
    keep = np.unique(np.concatenate([low, high]))
    return x[keep], y[keep]


def envelope(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, points: int = POINTS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reduce a long band to its outermost points in each interval."""
    if len(x) <= points:
        return x, low, high
    lowest, highest = _chosen(low, points // 2, np.argmin), _chosen(high, points // 2, np.argmax)
    return x[lowest], low[lowest], high[highest]


def _chosen(y: np.ndarray, intervals: int, pick: Callable[..., Any]) -> np.ndarray:
    """The index that `pick` chooses in each interval; NaN is chosen last."""
    size = -(-len(y) // intervals)
    places = np.minimum(np.arange(-(-len(y) // size) * size), len(y) - 1).reshape(-1, size)
    worst = np.inf if pick is np.argmin else -np.inf
    values = np.where(np.isfinite(y), y, worst)[places]
    return places[np.arange(len(places)), pick(values, axis=1)]


def log_scale(axes: Axes, low: float, high: float, which: str = "y") -> None:
    """Make an axis logarithmic, with a few labelled ticks for any range."""
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


def wrapped(label: str, width: int = 24) -> str:
    """Break a long label into lines of about this many characters, to leave room for the data."""
    return "\n".join(textwrap.wrap(label, width)) or label


def whole_numbers(axes: Axes) -> None:
    """Put ticks of the x-axis at whole numbers only."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
