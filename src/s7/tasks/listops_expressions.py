"""Nested expressions of digits and their values: [MAX 4 [MIN 2 9 ] [SM 5 7 ] ] is 4.

    [MIN  the minimum     [MAX  the maximum     [MED  the median, rounded down     [SM  the sum modulo 10

The procedure is that of the Long Range Arena. With probability 1/4 a node is an operator with 2 to 10 arguments,
uniformly distributed, each of which is a node; otherwise, and always at depth 10, it is a digit. Expressions with more
than 500 and fewer than 2,000 tokens are accepted by default, which is one in twelve.

Trees are grown level by level, thousands at a time. The length of a tree is known before its digits are drawn. At this
length, two equal expressions in a data set are practically impossible.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt8

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
# A token is an index into this list. The files have parentheses around every pair, which carry no information and are
# dropped.
TOKENS = (*"0123456789", *OPERATORS, "]")
FIRST_OPERATOR, END = 10, 14
DEPTH, MOST_ARGUMENTS = 10, 10
SUBTREE = 0.25
SHORTEST, LONGEST = 501, 1999
BLOCK = 1000
# Trees drawn at a time: about as many as a block needs.
_DRAWN = 14_000


class Expressions(NamedTuple):
    """Concatenated expressions: expression n is tokens[offsets[n] : offsets[n + 1]] and has the value labels[n]."""

    tokens: UInt8[np.ndarray, " T"]
    offsets: Int[np.ndarray, " M"]
    labels: Int[np.ndarray, " N"]

    @classmethod
    def of(cls, tokens: list[UInt8[np.ndarray, " _"]], labels: list[int]) -> "Expressions":
        """Build from the tokens of each expression."""
        offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        return cls(np.concatenate(tokens), offsets, np.array(labels, np.int32))

    @classmethod
    def joined(cls, parts: list["Expressions"], count: int) -> "Expressions":
        """The first `count` expressions of several parts."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])[:count]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.concatenate([part.tokens for part in parts])[: offsets[-1]]
        return cls(tokens, offsets, np.concatenate([part.labels for part in parts])[:count])


def make_block(seed: int, split: int, lengths: tuple[int, int], block: int) -> Expressions:
    """A thousand expressions, a function of the arguments, with lengths in the given range."""
    rng = np.random.default_rng([seed, split, block])
    parts: list[Expressions] = []
    while sum(len(part.labels) for part in parts) < BLOCK:
        parts.append(_written(_suitable(_grow(_DRAWN, rng), _DRAWN, lengths), rng))
    return Expressions.joined(parts, BLOCK)


class _Level(NamedTuple):
    """The nodes of one depth: the tree of each, in order, and its number of arguments, 0 for digits."""

    tree: Int[np.ndarray, " N"]
    arguments: Int[np.ndarray, " N"]

    @property
    def operators(self) -> Int[np.ndarray, " O"]:
        return np.flatnonzero(self.arguments)

    @property
    def starts(self) -> Int[np.ndarray, " O"]:
        """The position of the first argument of each operator in the next level."""
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


def _suitable(levels: list[_Level], trees: int, lengths: tuple[int, int]) -> list[_Level]:
    """The trees of an accepted length, renumbered."""
    length = np.zeros(trees, np.int64)
    for tree, arguments in levels:
        length += np.bincount(tree, minlength=trees) + np.bincount(tree[arguments > 0], minlength=trees)
    kept: Bool[np.ndarray, " trees"] = (length >= lengths[0]) & (length <= lengths[1])
    number = np.cumsum(kept) - 1
    return [_Level(number[level.tree[kept[level.tree]]], level.arguments[kept[level.tree]]) for level in levels]


def _written(levels: list[_Level], rng: np.random.Generator) -> Expressions:
    """Draw the operators and digits of trees. Values are computed bottom-up and positions top-down."""
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
    """The values of operators, whose arguments begin at `starts`."""
    in_order = np.sort(np.repeat(np.arange(len(starts)) * 10, counts) + values) % 10
    least, greatest = in_order[starts], in_order[starts + counts - 1]
    median = (in_order[starts + (counts - 1) // 2] + in_order[starts + counts // 2]) // 2
    total = np.add.reduceat(values, starts) % 10
    return np.choose(operator, [least, greatest, median, total])


class Brackets(NamedTuple):
    """The value and the height of the operator that ends at each token.

    An operator on digits has height 1, others one more than their highest argument. At tokens that end no operator, the
    value is -1 and the height 0.
    """

    values: Int[np.ndarray, " T"]
    heights: Int[np.ndarray, " T"]


def closing_brackets(expressions: Expressions) -> Brackets:
    """The operators of expressions, at their closing brackets.

    Raises:
        ValueError: If an expression is invalid, naming it and its first invalid token.
    """
    tokens, offsets = expressions.tokens, expressions.offsets
    brackets = Brackets(np.full(len(tokens), -1, np.int8), np.zeros(len(tokens), np.int8))
    for first in range(0, len(offsets) - 1, BLOCK):
        cuts = offsets[first : first + BLOCK + 1]
        part = slice(cuts[0], cuts[-1])
        depth = _depth(tokens[part])
        if (
            (depth[cuts[:-1] - cuts[0]] != 1).any()
            or depth.min() < 1
            or tokens[cuts[1:] - 1].min() < END
            or _has_empty(tokens[part])
        ):
            _check(expressions, first)
        brackets.values[part], brackets.heights[part] = _evaluated(tokens[part], depth)
    return brackets


def _depth(tokens: UInt8[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """The number of operators around each token, which include an operator itself and that of a closing bracket."""
    opens, ends = (tokens >= FIRST_OPERATOR) & (tokens < END), tokens == END
    return np.cumsum(opens.astype(np.int8) - ends, dtype=np.int32) + ends


def _has_empty(tokens: UInt8[np.ndarray, " T"]) -> bool:
    """Whether an operator has no arguments."""
    return bool(((tokens[:-1] >= FIRST_OPERATOR) & (tokens[:-1] < END) & (tokens[1:] == END)).any())


def _check(expressions: Expressions, first: int) -> None:
    """Evaluate the expressions of a block one by one, which names the first invalid token."""
    offsets = expressions.offsets[first : first + BLOCK + 1]
    for number, (start, stop) in enumerate(pairwise(offsets), first):
        try:
            evaluate(expressions.tokens[start:stop])
        except ValueError as error:
            raise ValueError(f"expression {number}: {error}") from None


def _evaluated(tokens: UInt8[np.ndarray, " T"], depth: Int[np.ndarray, " T"]) -> Brackets:
    """Evaluate valid expressions, from the deepest operators to the outermost."""
    opens, ends = (tokens >= FIRST_OPERATOR) & (tokens < END), tokens == END
    values, heights = tokens.astype(np.int64), np.zeros(len(tokens), np.int64)
    for around in range(depth.max(), 0, -1):
        operators, closing = (np.flatnonzero(which & (depth == around)) for which in (opens, ends))
        # Digits and the brackets of the operators one level deeper.
        arguments = np.flatnonzero((depth - ends == around) & ~opens)
        starts = np.searchsorted(arguments, operators)
        counts = np.searchsorted(arguments, closing) - starts
        values[closing] = _applied(values[operators] - FIRST_OPERATOR, values[arguments], starts, counts)
        heights[closing] = 1 + np.maximum.reduceat(heights[arguments], starts)
    return Brackets(np.where(ends, values, -1), heights)


_APPLY = (
    min,
    max,
    lambda values: (sorted(values)[(len(values) - 1) // 2] + sorted(values)[len(values) // 2]) // 2,
    lambda values: sum(values) % 10,
)


def evaluate(tokens: Integer[np.ndarray, " T"]) -> int:
    """The value of an expression. An error names the first invalid token."""
    # The arguments of each open operator, outermost first, and the position of the operator.
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
            raise ValueError(f"token {place} (']') has no matching operator")
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


# Operators as one byte each that does not occur in text, so that all tokens are single bytes.
_AS_BYTE = {name.encode(): bytes([0xF0 + n]) for n, name in enumerate(OPERATORS)}
_CODES = np.full(256, 255, np.uint8)
for _code, _letter in enumerate([*b"0123456789", *(byte[0] for byte in _AS_BYTE.values()), b"]"[0]]):
    _CODES[_letter] = _code


def tokenize(text: str | bytes) -> UInt8[np.ndarray, " T"]:
    """The tokens of a printed expression, in which they are separated by spaces. An error names an unknown token."""
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
    """Print an expression, without parentheses."""
    return " ".join(TOKENS[token] for token in tokens.tolist())
