"""What the paper prints: its tables of results, digit by digit, and what must be known to read them.

Soydan, Zubić, Messikommer, Mishra, Scaramuzza: S7, Selective and Simplified State Space Layers for Sequence Modeling.
Its table of hyperparameters is in `hyperparameters.py`.
"""

from typing import NamedTuple

# How `s7 ablate` names its variants. The model as it is set has no name where it was trained alone.
UNNAMED, AS_SET, NO_REPARAMETERIZATION, USUAL = "", "as set", "no reparameterization", "a=1 b=0.5"


class Unit(NamedTuple):
    """A metric times `scale` is what is printed."""

    name: str
    scale: float


PERCENT, HUNDREDTHS, THOUSANDTHS, PLAIN = Unit("%", 100), Unit("× 1e-2", 100), Unit("× 1e-3", 1000), Unit("", 1)


class Line(NamedTuple):
    """A model, or a variant of S7, with what is printed for each task of the table; "" where nothing is.

    `model` is its name here, None if this project has no such model. `variants` are those of the model that the line
    stands for, in the order of preference. `counted` is the printed number as results
    are counted here, where that differs. Brackets hold what the paper prints beside a number.
    """

    name: str
    model: str | None
    printed: tuple[str, ...]
    average: str = ""
    variants: tuple[str, ...] = (UNNAMED, AS_SET)
    counted: str = ""


class Table(NamedTuple):
    """`varied` says what its lines differ in."""

    name: str
    title: str
    metric: str
    unit: Unit
    tasks: tuple[str, ...]
    lines: tuple[Line, ...]
    varied: str = "model"
    notes: tuple[str, ...] = ()


def value(printed: str) -> float:
    """The number at the beginning of what is printed."""
    return float(printed.split()[0])


EVENTS = Table(
    "events",
    "Event sets, accuracy",
    "accuracy",
    PERCENT,
    ("dvs-gesture", "shd", "ssc"),
    (
        Line("LSN", None, ("", "95.1 (0.2M)", "80.7 (2.5M)")),
        Line("SGN", None, ("", "94.6 (3.9M)", "77.4 (3.9M)")),
        Line("CNN+S5", None, ("97.8 (6.8M)", "93.8 (3.9M)", "81.2 (4.2M)")),
        Line("BET", None, ("98.8", "", "")),
        Line("EventSSM", "eventssm", ("97.7 (5.4M)", "95.5 (0.4M)", "87.1 (0.6M)")),
        Line("S7", "s7", ("99.2 (4.1M)", "96.3 (0.5M)", "88.2 (0.6M)")),
    ),
    notes=(
        "On DVS-Gesture and SHD the printed S7 had its epoch chosen on the test set; `paper` does so too.",
        "A run on the sample of ten recordings of DVS-Gesture tests what it learnt, and is left out.",
    ),
)

LRA = Table(
    "lra",
    "Long Range Arena, accuracy",
    "accuracy",
    PERCENT,
    ("listops", "text", "retrieval", "image", "pathfinder", "path-x"),
    (
        Line("Mega", None, ("63.14", "90.43", "91.25", "90.44", "96.01", "97.98"), "88.21"),
        Line("S4", "s4d", ("59.60", "86.82", "90.90", "88.65", "94.20", "96.35"), "86.09"),
        Line("S5", "s5", ("62.15", "89.31", "91.40", "88.00", "95.33", "98.58"), "87.46"),
        Line("S6 (Mamba)", "mamba", ("38.02", "82.98", "72.14", "69.82", "69.26", "67.32"), "66.59"),
        Line("LRU", "lru", ("60.20", "89.40", "89.90", "89.00", "95.10", "94.20"), "86.30"),
        Line("S7", "s7", ("63.77", "87.22", "91.80", "61.14", "65.52", "61.50"), "71.82"),
    ),
    notes=(
        "The model here beside S4 is s4d, its diagonal form.",
        "text: S5, whose set-up the paper takes, has its epoch chosen on the test set; `paper` does so too.",
        "image, pathfinder: the runs stored with the released code reached 77.9 % (complex states, depth 4, "
        "728k parameters) and 64.5 % (P = 2).",
        "listops, pathfinder and path-x are made here to the published recipe, unless data.origin says otherwise.",
    ),
)

PENDULUM = Table(
    "pendulum",
    "Pendulum, MSE",
    "mse",
    THOUSANDTHS,
    ("pendulum",),
    (
        Line("RKN", None, ("8.43 (1.9×)",)),
        Line("RKN-Δt", None, ("5.09 (1.9×)",)),
        Line("CRU", None, ("4.63 (1.0×)",)),
        Line("S5", "s5", ("3.41 (86×)",)),
        Line("S7", "s7", ("2.91 (357×)",)),
    ),
    notes=(
        "Printed in brackets: speed relative to CRU, on the authors' machines.",
        "The paper prints no settings for this task; every author simulates a draw of their own. The split is the same "
        "under both protocols.",
    ),
)

FITZHUGH_NAGUMO = Table(
    "fitzhugh-nagumo",
    "FitzHugh–Nagumo, RMSE",
    "rmse",
    HUNDREDTHS,
    ("fitzhugh-nagumo",),
    (
        Line("LSTM", "lstm", ("1.2 (16 units, 1k)",)),
        Line("expRNN", "exprnn", ("2.3 (50 units, 1k)",)),
        Line("LipschitzRNN", "lipschitz-rnn", ("1.8 (24 units, 1k)",)),
        Line("FastGRNN", "fastgrnn", ("2.2 (34 units, 1k)",)),
        Line("coRNN", "cornn", ("0.4 (24 units, 1k)",)),
        Line("LEM", "lem", ("0.2 (16 units, 1k)",)),
        Line("S5", "s5", ("0.0024 (16 units, 1k)",), counted="0.49"),
        Line("S7", "s7", ("0.0013 (16 units, 1k)",), counted="0.36"),
    ),
    notes=(
        "The paper says L² error. Its 0.0013e-2 and 0.0024e-2 read like mean squares that were not rooted: the roots, "
        "0.36e-2 and 0.49e-2, are what compares with the RMSE here. The other lines are LEM's, of the last test batch.",
        "Answering with the last value has an RMSE of 7.85e-2. The split is the same under both protocols.",
    ),
)

HUMAN_ACTIVITY = Table(
    "human-activity",
    "Human activity, accuracy per time step",
    "accuracy",
    PERCENT,
    ("human-activity",),
    (
        Line("ODE-RNN", "ode-rnn", ("80.43 ± 1.55",)),
        Line("CT-RNN", "ct-rnn", ("83.65 ± 1.55",)),
        Line("Augmented LSTM", "augmented-lstm", ("84.11 ± 0.68",)),
        Line("CT-GRU", "ct-gru", ("79.48 ± 2.12",)),
        Line("RNN Decay", "rnn-decay", ("62.89 ± 3.87",)),
        Line("Bi-directional RNN", "bi-rnn", ("83.85 ± 0.45",)),
        Line("GRU-D", "gru-d", ("83.57 ± 0.40",)),
        Line("PhasedLSTM", "phased-lstm", ("83.33 ± 0.69",)),
        Line("GRU-ODE", "gru-ode", ("82.56 ± 2.63",)),
        Line("CT-LSTM", "ct-lstm", ("84.13 ± 0.11",)),
        Line("ODE-LSTM", "ode-lstm", ("84.15 ± 0.33",)),
        Line("S7", "s7", ("94.09 ± 0.001",)),
    ),
    notes=(
        "The printed protocol, which `paper` repeats: windows that overlap by half are shuffled before a fifth is put "
        "aside, so four in five of the tested time steps were learnt from. The released code of S7 also chooses the "
        "epoch on them. `strict` splits by person.",
        "The results kept in docs/results are of the first tenth of the file, three recordings of one person, which "
        "`strict` can only split by recording; the printed ones are of all of it.",
        "The printed ± 0.001 of S7 reads like that of a share, 0.1 %.",
    ),
)

EIGENWORMS = Table(
    "eigenworms",
    "EigenWorms, accuracy",
    "accuracy",
    PERCENT,
    ("eigenworms",),
    (
        Line("NRDE", None, ("86.8 (32 units, 35k)",)),
        Line("expRNN", "exprnn", ("50.1 (64 units, 2.8k)",)),
        Line("IndRNN (2 layers)", "indrnn", ("54.5 (32 units, 1.6k)",)),
        Line("LSTM", "lstm", ("48.6 (32 units, 5.3k)",)),
        Line("BiLSTM+1d-conv", None, ("47.8 (32 units, 5.8k)",)),
        Line("chrono-LSTM", "chrono-lstm", ("89.0 (32 units, 5.3k)",)),
        Line("coRNN", "cornn", ("89.7 (32 units, 2.4k)",)),
        Line("UniCORNN (2 layers)", "unicornn", ("93.3 (32 units, 1.5k)",)),
        Line("LEM", "lem", ("94.1 (32 units, 5.3k)",)),
        Line("S7", "s7", ("97.5 (16 units, 12k)",)),
    ),
    notes=(
        "`paper` tests 39 recordings, each of them 2.6 %; the run stored with the released code had 32 of 39 right, "
        "82.1 %. Some recordings are copies of others: `strict` leaves these out.",
    ),
)

WALKER2D = Table(
    "walker2d",
    "Walker2d, MSE",
    "mse",
    PLAIN,
    ("walker2d",),
    (
        Line("ODE-RNN", "ode-rnn", ("1.904 ± 0.061",)),
        Line("CT-RNN", "ct-rnn", ("1.198 ± 0.004",)),
        Line("Augmented LSTM", "augmented-lstm", ("1.065 ± 0.006",)),
        Line("CT-GRU", "ct-gru", ("1.172 ± 0.011",)),
        Line("RNN-Decay", "rnn-decay", ("1.406 ± 0.005",)),
        Line("Bi-directional RNN", "bi-rnn", ("1.071 ± 0.009",)),
        Line("GRU-D", "gru-d", ("1.090 ± 0.034",)),
        Line("PhasedLSTM", "phased-lstm", ("1.063 ± 0.010",)),
        Line("GRU-ODE", "gru-ode", ("1.051 ± 0.018",)),
        Line("CT-LSTM", "ct-lstm", ("1.014 ± 0.014",)),
        Line("S7", "s7", ("0.120 ± 0.005",), counted="0.24"),
    ),
    notes=(
        "The 0.120 of S7 (best run 0.114) is half the squared error, so 0.24 as counted here, of a bidirectional model "
        "whose epoch was chosen on the test set. The target is the next state, nine times in ten the next input, which "
        "a backward scan has read: `paper` repeats that to compare with print. `strict` is causal.",
        "The lines above it were published with ODE-LSTM, which itself has 0.883 and is not in the paper's table. "
        "Answering with the last state has 4.54.",
    ),
)

_SWITCH = (
    "Without: the transition is Plain. In the released code the reparameterization is the inverse of the printed one, "
    "and off in its three stored runs."
)


def _switched(name: str, title: str, printed: dict[str, tuple[str, str]], *notes: str) -> Table:
    """An ablation that prints (without, with) of each task."""
    without, full = zip(*printed.values(), strict=True)
    lines = (
        Line("no", "s7", without, variants=(NO_REPARAMETERIZATION,)),
        Line("yes", "s7", full, variants=(USUAL, AS_SET, UNNAMED)),
    )
    return Table(name, title, "accuracy", PERCENT, tuple(printed), lines, "reparameterization", (*notes, _SWITCH))


ABLATION_EVENTS = _switched(
    "ablation-events",
    "Ablation on event sets, accuracy",
    {"dvs-gesture": ("98.1", "99.2"), "shd": ("93.1", "96.3"), "ssc": ("87.8", "88.2")},
    "The paper's text swaps the two numbers of ssc; those of its table are here.",
)

ABLATION_SERIES = _switched(
    "ablation-series",
    "Ablation on human activity and EigenWorms, accuracy",
    {"human-activity": ("93.79", "94.09"), "eigenworms": ("96.66", "97.50")},
)

ABLATION_LRA = _switched(
    "ablation-lra",
    "Ablation on the Long Range Arena, accuracy",
    {
        "listops": ("62.11", "63.77"),
        "text": ("85.42", "87.22"),
        "retrieval": ("91.64", "91.80"),
        "image": ("60.30", "61.14"),
    },
)

ABLATION_A_B = Table(
    "ablation-a-b",
    "a and b of the reparameterization 1 - 1/(a w² + b), accuracy",
    "accuracy",
    PERCENT,
    ("dvs-gesture", "eigenworms", "listops"),
    (
        Line("a = 0.5, b = 0.5", "s7", ("98.7", "96.8", "62.53"), variants=("a=0.5 b=0.5",)),
        Line("a = 1, b = 0.5", "s7", ("99.2", "97.5", "63.77"), variants=(USUAL, AS_SET, UNNAMED)),
        Line("a = 1, b = 1", "s7", ("98.9", "97.1", "63.22"), variants=("a=1 b=1",)),
    ),
    varied="a, b",
    notes=("With b = 0.5 a state at w = 0 is multiplied by -1: only marginally stable.",),
)

TABLES = (
    *(EVENTS, LRA, PENDULUM, FITZHUGH_NAGUMO, HUMAN_ACTIVITY, EIGENWORMS, WALKER2D),
    *(ABLATION_EVENTS, ABLATION_SERIES, ABLATION_LRA, ABLATION_A_B),
)
