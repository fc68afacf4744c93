"""Nested lists of digits and what they come to: [MAX 4 [MIN 2 9 ] [SM 5 7 ] ] is 4.

    [MIN  the least     [MAX  the greatest     [MED  the median, rounded down     [SM  the sum modulo 10

The recipe is that of the Long Range Arena. With probability 1/4 a node is an operator with 2 to 10 arguments, any
number as likely as any other, each of them a node again; else, and always at depth 10, it is a digit. An expression
is kept if it has more than 500 and fewer than 2,000 tokens. One in twelve is.

Trees grow level by level, thousands at a time; a tree's length is known before any digit is drawn. No two
expressions of a data set are the same: at this length chance alone sees to that.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt8

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
# A token is a place in this list. Parentheses, which the files have around every pair, say nothing and are left out.
TOKENS = (*"0123456789", *OPERATORS, "]")
FIRST_OPERATOR, END = 10, 14
DEPTH, MOST_ARGUMENTS = 10, 10
SUBTREE = 0.25
SHORTEST, LONGEST = 501, 1999
BLOCK = 1000
# Trees drawn at a time: about as many as a block takes.
_DRAWN = 14_000


class Expressions(NamedTuple):
    """Tokens end to end: expression n is tokens[offsets[n] : offsets[n + 1]], and comes to labels[n]."""

    tokens: UInt8[np.ndarray, " T"]
    offsets: Int[np.ndarray, " M"]
    labels: Int[np.ndarray, " N"]

    @classmethod
    def of(cls, tokens: list[UInt8[np.ndarray, " _"]], labels: list[int]) -> "Expressions":
        """From the tokens of each."""
        offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        return cls(np.concatenate(tokens), offsets, np.array(labels, np.int32))

    @classmethod
    def joined(cls, parts: list["Expressions"], count: int) -> "Expressions":
        """The first `count` of several parts."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])[:count]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.concatenate([part.tokens for part in parts])[: offsets[-1]]
        return cls(tokens, offsets, np.concatenate([part.labels for part in parts])[:count])


def make_block(seed: int, split: int, block: int) -> Expressions:
    """A thousand expressions, the same for the same three numbers."""
    rng = np.random.default_rng([seed, split, block])
    parts: list[Expressions] = []
    while sum(len(part.labels) for part in parts) < BLOCK:
        parts.append(_written(_suitable(_grow(_DRAWN, rng), _DRAWN), rng))
    return Expressions.joined(parts, BLOCK)


class _Level(NamedTuple):
    """The nodes of one depth: of which tree, in order, and with how many arguments; a digit has none."""

    tree: Int[np.ndarray, " N"]
    arguments: Int[np.ndarray, " N"]

    @property
    def operators(self) -> Int[np.ndarray, " O"]:
        return np.flatnonzero(self.arguments)

    @property
    def starts(self) -> Int[np.ndarray, " O"]:
        """Where the arguments of each operator start in the level below."""
        arguments = self.arguments[self.operators]
        return np.cumsum(arguments) - arguments


def _grow(trees: int, rng: np.random.Generator) -> list[_Level]:
    levels = []
    tree = np.arange(trees)
    for depth in range(1, DEPTH + 1):
        arguments = np.zeros(len(tree), np.int64)
        if depth < DEPTH:
            operators = np.flatnonzero(rng.random(len(tree)) < SUBTREE)
            arguments[operators] = rng.integers(2, MOST_ARGUMENTS + 1, len(operators))
        levels.append(_Level(tree, arguments))
        tree = np.repeat(tree, arguments)
    return levels


def _suitable(levels: list[_Level], trees: int) -> list[_Level]:
    """The trees of a length that is wanted, numbered anew."""
    length = np.zeros(trees, np.int64)
    for tree, arguments in levels:
        length += np.bincount(tree, minlength=trees) + np.bincount(tree[arguments > 0], minlength=trees)
    kept: Bool[np.ndarray, " trees"] = (length >= SHORTEST) & (length <= LONGEST)
    number = np.cumsum(kept) - 1
    return [_Level(number[level.tree[kept[level.tree]]], level.arguments[kept[level.tree]]) for level in levels]


def _written(levels: list[_Level], rng: np.random.Generator) -> Expressions:
    """The trees as expressions: operators and digits are drawn, values go up from the deepest level, places down."""
    symbols = [
        np.where(level.arguments > 0, rng.integers(0, 4, len(level.tree)), rng.integers(0, 10, len(level.tree)))
        for level in levels
    ]
    values, sizes = [symbol.copy() for symbol in symbols], [np.ones_like(symbol) for symbol in symbols]
    for depth in reversed(range(DEPTH - 1)):
        operators, starts = levels[depth].operators, levels[depth].starts
        if len(operators):
            operands = values[depth + 1], starts, levels[depth].arguments[operators]
            values[depth][operators] = _applied(symbols[depth][operators], *operands)
            sizes[depth][operators] = 2 + np.add.reduceat(sizes[depth + 1], starts)
    offsets = np.concatenate([[0], np.cumsum(sizes[0])])
    tokens = np.empty(offsets[-1], np.uint8)
    places = offsets[:-1]
    for depth, level in enumerate(levels):
        operators, starts = level.operators, level.starts
        tokens[places] = symbols[depth] + FIRST_OPERATOR * (level.arguments > 0)
        tokens[(places + sizes[depth] - 1)[operators]] = END
        if depth < DEPTH - 1:
            before = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
            places = before + np.repeat(places[operators] + 1 - before[starts], level.arguments[operators])
    return Expressions(tokens, offsets, values[0].astype(np.int32))


def _applied(
    operator: Int[np.ndarray, " O"],
    values: Int[np.ndarray, " A"],
    starts: Int[np.ndarray, " O"],
    counts: Int[np.ndarray, " O"],
) -> Int[np.ndarray, " O"]:
    """What operators come to, the arguments of each from its start on."""
    in_order = np.sort(np.repeat(np.arange(len(starts)) * 10, counts) + values) % 10
    least, greatest = in_order[starts], in_order[starts + counts - 1]
    median = (in_order[starts + (counts - 1) // 2] + in_order[starts + counts // 2]) // 2
    total = np.add.reduceat(values, starts) % 10
    return np.choose(operator, [least, greatest, median, total])


_APPLY = (
    min,
    max,
    lambda values: (sorted(values)[(len(values) - 1) // 2] + sorted(values)[len(values) // 2]) // 2,
    lambda values: sum(values) % 10,
)


def evaluate(tokens: Integer[np.ndarray, " T"]) -> int:
    """What an expression comes to; an error names the token that does not fit."""
    # The lists that are open, the outermost holding the answer, and where each was opened.
    lists: list[list[int]] = [[]]
    opened: list[int] = []
    codes = tokens.tolist()
    for place, token in enumerate(codes):
        if not opened and lists[0]:
            raise ValueError(f"token {place} ({_name(token)}) comes after the end of the expression")
        if 0 <= token < FIRST_OPERATOR:
            lists[-1].append(token)
        elif FIRST_OPERATOR <= token < END:
            lists.append([])
            opened.append(place)
        elif token != END:
            raise ValueError(f"token {place} ({token}) is not one of 0 to {END}")
        elif not opened:
            raise ValueError(f"token {place} (']') closes nothing")
        elif not lists[-1]:
            raise ValueError(f"token {place} (']') closes an operator without arguments")
        else:
            value = _APPLY[codes[opened.pop()] - FIRST_OPERATOR](lists.pop())
            lists[-1].append(value)
    if opened:
        raise ValueError(f"token {opened[-1]} ({_name(codes[opened[-1]])}) is never closed")
    if not lists[0]:
        raise ValueError("an expression without tokens")
    return lists[0][0]


def _name(token: int) -> str:
    return repr(TOKENS[token]) if 0 <= token <= END else str(token)


# Operators as one byte each, which no text has, so that all tokens are single bytes.
_AS_BYTE = {name.encode(): bytes([0xF0 + n]) for n, name in enumerate(OPERATORS)}
_CODES = np.full(256, 255, np.uint8)
for _code, _letter in enumerate([*b"0123456789", *(byte[0] for byte in _AS_BYTE.values()), b"]"[0]]):
    _CODES[_letter] = _code


def tokenize(text: str | bytes) -> UInt8[np.ndarray, " T"]:
    """The tokens of an expression as it is printed, with spaces between; an error names the one that is not known."""
    letters = text.encode() if isinstance(text, str) else text
    letters = letters.strip()
    if letters.isascii():
        short = letters
        for name, byte in _AS_BYTE.items():
            short = short.replace(name, byte)
        is_letter = np.frombuffer(short, np.uint8) != ord(" ")
        tokens = _CODES[np.frombuffer(short.translate(None, b"() "), np.uint8)]
        if not (is_letter[1:] & is_letter[:-1]).any() and (tokens <= END).all():
            return tokens
    words = [word for word in letters.decode(errors="replace").split(" ") if word not in ("", "(", ")")]
    place = next(place for place, word in enumerate(words) if word not in TOKENS)
    raise ValueError(f"token {place} ({words[place]!r}) is not one of {' '.join(TOKENS)}")


def spell(tokens: Integer[np.ndarray, " T"]) -> str:
    """An expression as it is printed, without parentheses."""
    return " ".join(TOKENS[token] for token in tokens.tolist())
