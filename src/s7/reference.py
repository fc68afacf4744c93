"""The reference implementation of the S7 layer: float64 NumPy, one event at a time, every matrix written out.

Start reading here. It is slow, shares no code with the rest of the library, and is what the fast implementations are
tested against. Equation numbers are those of the paper.
"""

from collections.abc import Callable

import numpy as np

Parameters = dict[str, np.ndarray]
Transition = Callable[[np.ndarray, float | None], tuple[np.ndarray, np.ndarray]]
Form = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def layer(
    u: np.ndarray, dt: np.ndarray | None, transition: Transition, form: Form, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run the layer.

    Args:
        u: The inputs, (L, H).
        dt: The gap before each event, (L,); None for regular time.
        transition: Maps (u_k, dt_k) to (a_k, g_k).
        form: Maps u_k to (B_k, b_k, C_k, D_k).
        x: The state before the first event, (P,).

    Returns:
        The outputs y, (L, H), and the final state.
    """
    y = np.zeros(u.shape)
    for k in range(len(u)):
        a_k, g_k = transition(u[k], None if dt is None else dt[k])
        B_k, b_k, C_k, D_k = form(u[k])
        x = a_k * x + g_k * (B_k @ u[k] + b_k)  # equations 3 and 5, with a gain g_k that the paper does not have
        y[k] = (C_k @ x).real + D_k @ u[k]  # equations 3 and 5
    return y, x


# Transitions: (u_k, dt_k) -> (a_k, g_k).


def raw(p: Parameters, u_k: np.ndarray) -> np.ndarray:
    """The paper's Λ_k, whose dependence on u_k it does not define: w_k = w + W_w u_k."""
    return p["w"] + p["W_w"] @ u_k if "W_w" in p else p["w"]


def stable(p: Parameters, a: float, b: float, gain: str | None) -> Transition:
    """The stable reparameterization. With a parameter `omega`, states oscillate."""

    def transition(u_k, dt_k):
        rate = 1 / (a * raw(p, u_k) ** 2 + b)
        if "omega" in p:
            a_k = np.exp((-rate + 1j * p["omega"]) * (1.0 if dt_k is None else dt_k))  # equation 12, with iω
        elif dt_k is None:
            a_k = 1 - rate  # equation 4
        else:
            a_k = np.exp(-rate * dt_k)  # equation 12, f(w) = -1/(a w² + b) from the appendix
        over_one_unit = np.exp(-rate) if "omega" in p or dt_k is not None else 1 - rate
        return a_k, _gain(gain, rate, over_one_unit)

    return transition


def plain(p: Parameters, gain: str | None) -> Transition:
    """The ablation without reparameterization."""

    def transition(u_k, dt_k):
        w_k = raw(p, u_k)
        a_k = w_k if dt_k is None else np.exp((w_k - 1) * dt_k)
        return a_k, _gain(gain, 1 - w_k, w_k if dt_k is None else np.exp(w_k - 1))

    return transition


def step(p: Parameters, held: bool = False) -> Transition:
    """Equation 2 with an input-dependent step size.

    The gap affects the decay only; with `held`, as in S5, it also affects the gain.
    """
    spectrum = -np.exp(p["decay"]) + 1j * p["omega"]

    def transition(u_k, dt_k):
        size = np.log1p(np.exp(raw(p, u_k)))
        a_k = np.exp(spectrum * size * (1.0 if dt_k is None else dt_k))
        return a_k, ((a_k if held else np.exp(spectrum * size)) - 1) / spectrum

    return transition


def ring(p: Parameters) -> Transition:
    """The transition of LRU."""

    def transition(u_k, dt_k):
        rate = np.exp(raw(p, u_k))
        a_k = np.exp((-rate + 1j * p["omega"]) * (1.0 if dt_k is None else dt_k))
        return a_k, np.sqrt(1 - np.exp(-2 * rate))

    return transition


def counting(transition: Transition) -> Transition:
    """The same transition with every second state counting events: its dt_k is 1, whatever the gap is."""

    def counted(u_k, dt_k):
        if dt_k is None:
            return transition(u_k, None)
        pairs = zip(transition(u_k, dt_k), transition(u_k, 1.0), strict=True)
        a_k, g_k = (np.where(np.arange(len(read)) % 2 == 1, counted, read) for read, counted in pairs)
        return a_k, g_k

    return counted


def _gain(gain: str | None, rate: np.ndarray, over_one_unit: np.ndarray) -> np.ndarray:
    if gain is None:
        return np.ones_like(rate)
    if gain == "rate":
        return rate
    return np.sqrt(np.maximum(1 - over_one_unit**2, 0))


# Forms: u_k -> (B_k, b_k, C_k, D_k). With complex states, the rows of B and b are the real parts followed by the
# imaginary parts, and so are the columns of C.


def full(p: Parameters, complex_state: bool) -> Form:
    """Equation 3: B_k, C_k and D_k depend on the input wherever there is a map W for them."""

    def form(u_k):
        B_k = p["B"] + (p["W_B"] @ u_k if "W_B" in p else 0)
        C_k = p["C"] + (p["W_C"] @ u_k if "W_C" in p else 0)
        return *_complex(B_k, _bias(p), C_k, complex_state), _direct(p, u_k)

    return form


def factored(p: Parameters, complex_state: bool) -> Form:
    """The same with maps of low rank."""

    def form(u_k):
        B_k = p["B"] + (p["V3"] @ np.diag(p["V2"] @ u_k) @ p["V1"] if "V1" in p else 0)
        C_k = p["C"] + (p["U3"] @ np.diag(p["U2"] @ u_k) @ p["U1"] if "U1" in p else 0)
        return *_complex(B_k, _bias(p), C_k, complex_state), _direct(p, u_k)

    return form


def _bias(p: Parameters) -> np.ndarray:
    return p.get("b", np.zeros(len(p["B"])))


def _direct(p: Parameters, u_k: np.ndarray) -> np.ndarray:
    """D_k: a full matrix, or a diagonal."""
    D_k = p["D"] + (p["W_D"] @ u_k if "W_D" in p else 0)
    return D_k if D_k.ndim == 2 else np.diag(D_k)


def _complex(B: np.ndarray, b: np.ndarray, C: np.ndarray, complex_state: bool):
    if not complex_state:
        return B, b, C
    P = len(B) // 2
    return B[:P] + 1j * B[P:], b[:P] + 1j * b[P:], C[:, :P] - 1j * C[:, P:]


# Around the layer.


def pooled_state(a: np.ndarray, v: np.ndarray, x: np.ndarray, stride: int) -> np.ndarray:
    """The state at the end of each window of `stride` events (equation 11, with a_k that vary within a window)."""
    ends = []
    for start in range(0, len(a), stride):
        window = range(start, min(start + stride, len(a)))
        x = np.prod(a[window], axis=0) * x + sum(np.prod(a[k + 1 : window.stop], axis=0) * v[k] for k in window)
        ends.append(x)
    return np.array(ends)


def token(x: int, y: int, brighter: bool, sensor: tuple[int, int]) -> int:
    """Equation 10, corrected so that different events have different tokens."""
    return 2 * (x * sensor[1] + y) + brighter
