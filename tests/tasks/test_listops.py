"""ListOps: expressions mean what they say, are made to the recipe, and are read from the published files."""

import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s7.data.folder import DataFolder
from s7.tasks import listops
from s7.tasks import listops_expressions as made
from s7.tasks.listops import FOLDERS, ListOps, read_expressions
from s7.tasks.listops_expressions import END, FIRST_OPERATOR, TOKENS, evaluate, make_block, spell, tokenize
from tests.listening import silent
from tests.real_data import real_file


@pytest.fixture(scope="module")
def block():
    """A thousand expressions."""
    return make_block(0, 0, 0)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of fifty expressions: sooner made."""
    monkeypatch.setattr(made, "BLOCK", 50)
    monkeypatch.setattr(listops, "BLOCK", 50)
    monkeypatch.setattr(made, "_DRAWN", 500)


# What expressions mean.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MIN 6 3 5 ]", 3),
        ("[MAX 6 3 9 ]", 9),
        ("[MED 9 1 4 ]", 4),
        ("[MED 0 1 ]", 0),
        ("[MED 8 2 5 4 ]", 4),
        ("[SM 6 5 9 0 ]", 0),
        ("[SM 4 ]", 4),
        ("[MAX 4 [MIN 2 9 ] [SM 5 7 ] ]", 4),
        ("( ( ( [SM 9 ) ( ( ( [MED 7 ) 2 ) ] ) ) ] )", 3),
    ],
)
def test_expressions_have_their_values(text, value):
    assert evaluate(tokenize(text)) == value


def test_depth_is_no_limit():
    deep = 20_000
    assert evaluate(tokenize("[MAX 1 " * deep + "8" + " ]" * deep)) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an expression without tokens"),
        ("[MIN 1 2", r"token 0 \('\[MIN'\) is never closed"),
        ("[MIN 1 [SM 2 3 ]", r"token 0 \('\[MIN'\) is never closed"),
        ("[MIN 1 [SM 2 3", r"token 2 \('\[SM'\) is never closed"),
        ("[MIN 1 2 ] ]", r"token 4 \('\]'\) comes after the end"),
        ("3 4", r"token 1 \('4'\) comes after the end"),
        ("]", r"token 0 \('\]'\) has no matching operator"),
        ("[MAX 1 [MED ] ]", r"token 3 \('\]'\) closes an operator without arguments"),
    ],
)
def test_invalid_expressions_are_rejected_with_the_position(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        evaluate(tokenize(text))


def test_an_invalid_token_is_rejected():
    with pytest.raises(ValueError, match=r"^token 1 \(15\) is not one of 0 to 14"):
        evaluate(np.array([10, 15, 14]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[MIN 1 12 ]", r"token 2 \('12'\)"),
        ("( ( [SUM 1 ) ] )", r"token 0 \('\[SUM'\)"),
        ("[MIN1 2 ]", r"token 0 \('\[MIN1'\)"),
        ("[MIN 1 2]", r"token 2 \('2\]'\)"),
        ("[MIN 1 -2 ]", r"token 2 \('-2'\)"),
        ("[MIN 1 ² ]", r"token 2 \('²'\)"),
        ("[MIN\t1 ]", r"token 0 \('\[MIN\\t1'\)"),
        (b"[MIN \xf0 ]", r"token 1 \('�'\)"),
    ],
)
def test_an_unknown_token_is_rejected_with_its_position(text, message):
    with pytest.raises(ValueError, match=f"^{message} is not one of 0 1 "):
        tokenize(text)


def plain(tree):
    """What a tree comes to, the way the recipe has it."""
    if isinstance(tree, int):
        return tree
    operator, *arguments = tree
    values = [plain(argument) for argument in arguments]
    return {"[MIN": min, "[MAX": max, "[MED": lambda q: int(np.median(q)), "[SM": lambda q: sum(q) % 10}[operator](
        values
    )


def bare(tree):
    return str(tree) if isinstance(tree, int) else f"{tree[0]} {' '.join(map(bare, tree[1:]))} ]"


def paired(tree):
    """As the files have it: parentheses around an operator with its first argument, that with the next, and so on."""
    if isinstance(tree, int):
        return str(tree)
    text = tree[0]
    for argument in tree[1:]:
        text = f"( {text} {paired(argument)} )"
    return f"( {text} ] )"


trees = st.recursive(
    st.integers(0, 9),
    lambda inner: st.tuples(st.sampled_from(made.OPERATORS), st.lists(inner, min_size=1, max_size=5)).map(
        lambda q: (q[0], *q[1])
    ),
    max_leaves=30,
)


@given(trees)
@settings(max_examples=40)
def test_values_are_those_of_a_plain_recursion_with_parentheses_or_without(tree):
    tokens = tokenize(bare(tree))
    assert tokens.tolist() == tokenize(paired(tree).encode()).tolist()
    assert spell(tokens) == bare(tree)
    assert evaluate(tokens) == plain(tree)


def test_values_are_those_of_the_published_expressions():
    lines = lzma.decompress(real_file("listops/test_d20s.tsv.xz").read_bytes()).splitlines()
    assert len(lines) == 10_000
    for number, line in enumerate(lines, 1):
        label, text = line.split(b"\t")
        assert evaluate(tokenize(text)) == int(label), f"line {number}"


# How they are made.


def expressions(block):
    return np.split(block.tokens, block.offsets[1:-1])


def test_expressions_are_to_the_recipe(block):
    lengths = np.diff(block.offsets)
    assert len(lengths) == 1000
    assert lengths.min() > 500
    assert lengths.max() < 2000
    assert block.tokens.dtype == np.uint8
    assert block.tokens.max() == END == len(TOKENS) - 1
    opens = (block.tokens >= FIRST_OPERATOR) & (block.tokens < END)
    nesting = np.cumsum(opens.astype(int) - (block.tokens == END))
    # Brackets match in each, and a digit is at depth 10 at most: within nine operators.
    assert not nesting[block.offsets[1:] - 1].any()
    assert nesting.max() == 9
    # Digits and operators are each as likely as any other.
    digits = np.bincount(block.tokens[block.tokens < FIRST_OPERATOR])
    operators = np.bincount(block.tokens[opens])[FIRST_OPERATOR:]
    assert np.ptp(digits) / digits.mean() < 0.05
    assert np.ptp(operators) / operators.mean() < 0.05


def test_generated_expressions_have_their_labels(block):
    some = expressions(block)[::25]
    assert [evaluate(tokens) for tokens in some] == block.labels[::25].tolist()


def arguments(tokens):
    """How many each operator has."""
    counts, stack = [], [0]
    for token in tokens.tolist():
        if token == END:
            counts.append(stack.pop())
        else:
            stack[-1] += 1
            if token >= FIRST_OPERATOR:
                stack.append(0)
    return counts


def test_operators_have_two_to_ten_arguments(block):
    counts = np.bincount(np.concatenate([arguments(tokens) for tokens in expressions(block)[:100]]))
    assert not counts[:2].any()
    assert len(counts) == 11
    assert counts[2:].min() > 0


def test_before_any_is_refused_trees_are_those_of_the_recipe():
    levels = made._grow(20_000, np.random.default_rng(5))
    assert len(levels) == 10
    assert not levels[-1].arguments.any()
    for level in levels[:-1]:
        operators = level.arguments[level.arguments > 0]
        assert len(operators) / len(level.arguments) == pytest.approx(0.25, abs=4 * 0.433 / len(level.arguments) ** 0.5)
        assert operators.mean() == pytest.approx(6, abs=4 * 2.6 / len(operators) ** 0.5)
        assert (operators.min(), operators.max()) == (2, 10)


@pytest.mark.usefixtures("small_blocks")
def test_a_block_depends_on_its_three_numbers_only():
    block, again = make_block(0, 0, 0), make_block(0, 0, 0)
    for mine, first in zip(again, block, strict=True):
        np.testing.assert_array_equal(mine, first)
    others = [make_block(*numbers) for numbers in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
    texts = [tokens.tobytes() for part in (block, *others) for tokens in expressions(part)]
    assert len(set(texts)) == len(texts) == 200


# The task.


@pytest.mark.usefixtures("small_blocks")
def test_the_task_splits_as_asked_and_makes_its_data_once(place):
    task = ListOps(train=125, valid=8, test=7)
    heard = []
    problem = task.load(DataFolder(place), "strict", heard.append)
    assert heard == ["generating 125 expressions …", "generating 8 expressions …", "generating 7 expressions …"]
    assert [len(q) for q in (problem.train, problem.valid, problem.test)] == [125, 8, 7]
    for samples in (problem.train, problem.valid, problem.test):
        tokens = np.split(samples.inputs, samples.offsets[1:-1])
        assert [evaluate(q) for q in tokens] == samples.targets.tolist()
        problem.objective.check(samples)
    assert problem.encoder.tokens == 15
    assert problem.objective.classes == problem.head.outputs == 10
    assert task.missing(DataFolder(place)) is None
    again = task.load(DataFolder(place), "paper", pytest.fail)
    assert again.train.digest() == problem.train.digest()


@pytest.mark.usefixtures("small_blocks")
def test_a_larger_set_begins_with_the_smaller(place):
    small, large = (ListOps(n, 1, 1).load(DataFolder(place), "strict", silent).train for n in (30, 70))
    assert large.take(np.arange(30)).digest() == small.digest()


@pytest.mark.parametrize("setting", ["train", "valid", "test"])
def test_an_empty_split_is_rejected(setting):
    with pytest.raises(ValueError, match=f"{setting}=0 must be at least 1"):
        ListOps(**{setting: 0})
    with pytest.raises(ValueError, match="seed=-1 must be at least 0"):
        ListOps(seed=-1)


# The published files.


def write_files(place, folder=FOLDERS[0], **changes):
    rows = {
        "train": [("( ( ( [MAX 1 ) 2 ) ] )", 2), ("( ( ( [SM 9 ) ( ( ( [MIN 3 ) 4 ) ] ) ) ] )", 2)],
        "val": [("( ( [MED 5 ) ] )", 5)],
        "test": [("( ( ( [MED 5 ) 8 ) ] )", 6)],
    }
    (place / folder).mkdir(parents=True)
    for name, content in rows.items():
        text = changes.get(name, "".join(f"{source}\t{target}\r\n" for source, target in content))
        (place / folder / f"basic_{name}.tsv").write_bytes(f"Source\tTarget\r\n{text}".encode())


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_published_files_are_read(place, folder):
    write_files(place, folder)
    task = ListOps(origin="lra")
    assert task.missing(DataFolder(place)) is None
    problem = task.load(DataFolder(place), "strict", silent)
    assert problem.train.targets.tolist() == [2, 2]
    assert problem.train.lengths.tolist() == [4, 7]
    assert spell(problem.train.take([1]).inputs) == "[SM 9 [MIN 3 4 ] ]"
    assert (problem.valid.targets.tolist(), problem.test.targets.tolist()) == ([5], [6])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[MAX 1 2 ]\t2\r\n[MAX 1 2 ]\r\n", "line 3: expected an expression, a tab and a digit"),
        ("[MAX 1 2 ]\t12\r\n", "line 2: expected an expression, a tab and a digit"),
        ("[MAX 1 2 ]\tx\r\n", "line 2: expected an expression, a tab and a digit"),
        ("[MAX 1 2 ]\t2\r\n[AVG 1 2 ]\t1\r\n", r"line 3: token 0 \('\[AVG'\) is not one of"),
        ("", "holds no expressions; get it again"),
    ],
)
def test_an_invalid_line_is_rejected(place, text, message):
    write_files(place, train=text)
    path = place / FOLDERS[0] / "basic_train.tsv"
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        read_expressions(path)


def test_missing_files_are_reported_with_an_alternative(place):
    task = ListOps(origin="lra")
    assert "listops-1000/basic_train.tsv is not in" in task.missing(DataFolder(place))
    with pytest.raises(FileNotFoundError, match=r"use data\.origin=made"):
        task.load(DataFolder(place), "strict", silent)
