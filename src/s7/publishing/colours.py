"""The colours of pages and figures, in a light and a dark theme, by role.

`ink` is text, `soft` secondary text, `faint` lines, `truth` targets, `c1` to `c8` series of data.
"""

ROLES = ("ink", "soft", "faint", "truth", *(f"c{n}" for n in range(1, 9)))
SERIES = 8
LIGHT = {
    "page": "#fcfcfa",
    "card": "#ffffff",
    "ink": "#22252b",
    "soft": "#5b616c",
    "faint": "#d8dade",
    "truth": "#6d7380",
    "c1": "#1d5fd1",
    "c2": "#c2570c",
    "c3": "#15803d",
    "c4": "#8b3fc7",
    "c5": "#c81e4a",
    "c6": "#0e7490",
    "c7": "#8a5a00",
    "c8": "#4b5563",
    # For translucent backgrounds: red, green, blue, and the opacity at full strength.
    "hit": "29 95 209",
    "miss": "214 96 14",
    "shade": ".55",
}
DARK = {
    "page": "#14161a",
    "card": "#1b1e24",
    "ink": "#e4e6ea",
    "soft": "#a3a9b4",
    "faint": "#3a3f48",
    "truth": "#a9afba",
    "c1": "#74a8ff",
    "c2": "#f59a4e",
    "c3": "#5fd08a",
    "c4": "#c79bff",
    "c5": "#ff8097",
    "c6": "#4cc9e0",
    "c7": "#e0b95c",
    "c8": "#b4bcc9",
    "hit": "64 126 240",
    "miss": "224 122 44",
    "shade": ".6",
}
