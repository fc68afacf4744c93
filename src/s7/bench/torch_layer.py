"""Other people's selective scans, where they are installed: PyTorch with mambapy (mamba.py) or mamba_ssm, on the CPU.

It is Mamba's layer without convolution and gate, at the same width and state: B_k, C_k and a step size that follow the
input, and P states for each of the H channels,

    x_k = exp(Δ_k A) * x_{k-1} + Δ_k B_k u_k          y_k = C_k x_k + D u_k

so it is another function than S7's and not compared with it in numbers, only in time. Nothing here is a dependency:
PyTorch is imported when a case is measured and only if it is there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from s7.bench.cases import LayerCase
from s7.bench.machine import fits
from s7.bench.timing import Run
from s7.machine import usable_cores

MISSING = "no PyTorch with mambapy or mamba_ssm here: no rows of Mamba's selective scan"
# Arrays of (batch, L, H, P) that forward and backward hold at once, roughly.
COPIES = 8


@dataclass(frozen=True)
class Peer:
    """Mamba's layer, with the recurrence and the read-out by `scan(u, delta, A, B, C)`."""

    name: str
    torch: Any
    scan: Callable[..., Any]

    def too_large(self, case: LayerCase) -> bool:
        """Whether its states, H·P at each step, would not fit."""
        return not fits(case.steps * case.width * case.state * 4 * COPIES)

    def programs(self, case: LayerCase) -> tuple[Run, Run]:
        """Forward, and the gradient of mean(y²) by all parameters and the input; both have run once."""
        torch, H, P = self.torch, case.width, case.state
        rank = math.ceil(H / 16)
        torch.manual_seed(0)
        u = torch.randn(case.batch, case.length, H)
        narrow, wide = torch.randn(H, rank) / math.sqrt(H), torch.randn(rank, H) / math.sqrt(rank)
        W_B, W_C = (torch.randn(H, P) / math.sqrt(H) for _ in range(2))
        A = torch.arange(1.0, P + 1).log().repeat(H, 1)
        D, bias = torch.ones(H), torch.full((H,), -4.0)
        leaves = [q.requires_grad_() for q in (u, narrow, wide, bias, A, W_B, W_C, D)]

        def output(u, narrow, wide, bias, A, W_B, W_C, D):
            delta = torch.nn.functional.softplus(u @ narrow @ wide + bias)
            return self.scan(u, delta, -A.exp(), u @ W_B, u @ W_C) + D * u

        def forward():
            with torch.no_grad():
                return output(*leaves)

        def gradient():
            return torch.autograd.grad((output(*leaves) ** 2).mean(), leaves)

        for run in (forward, gradient):
            run()
        return forward, gradient


def find() -> Peer | None:
    """The first that is installed."""
    for name, module, adapt in (
        ("mamba.py", "mambapy.pscan", _mambapy),
        ("mamba_ssm", "mamba_ssm.ops.selective_scan_interface", _mamba_ssm),
    ):
        try:
            torch, found = import_module("torch"), import_module(module)
        except (ImportError, OSError):  # mamba_ssm does not import on a machine without CUDA
            continue
        torch.set_num_threads(usable_cores())
        return Peer(name, torch, adapt(found))
    return None


def _mambapy(module: Any) -> Callable[..., Any]:
    def scan(u, delta, A, B, C):
        factors = (delta[..., None] * A).exp()
        states = module.pscan(factors, (delta * u)[..., None] * B[:, :, None])
        return (states @ C[..., None])[..., 0]

    return scan


def _mamba_ssm(module: Any) -> Callable[..., Any]:
    def scan(u, delta, A, B, C):
        # Its reference version: the other is for CUDA. Time comes last there.
        u, delta, B, C = (q.transpose(1, 2) for q in (u, delta, B, C))
        return module.selective_scan_ref(u, delta, A, B, C).transpose(1, 2)

    return scan
