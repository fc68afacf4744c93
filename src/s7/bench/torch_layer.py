"""Mamba's selective scan in PyTorch on the CPU, if mambapy (mamba.py) or mamba_ssm is installed.

This is Mamba's layer without convolution and gate, at the same width and state: B_k, C_k and the step size depend on
the input, and each of the H channels has P states,

    x_k = exp(Δ_k A) * x_{k-1} + Δ_k B_k u_k          y_k = C_k x_k + D u_k

It computes another function than S7, so only its time is compared. PyTorch is optional and imported only when a case is
measured.
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

MISSING = "mambapy and mamba_ssm are not installed: Mamba's selective scan is not measured"
# Approximate number of arrays of shape (batch, L, H, P) in memory during forward and backward.
COPIES = 8


@dataclass(frozen=True)
class TorchBaseline:
    """Mamba's layer. `scan(u, delta, A, B, C)` computes the recurrence and the read-out."""

    name: str
    torch: Any
    scan: Callable[..., Any]

    def too_large(self, case: LayerCase) -> bool:
        """Whether the states, H·P per step, would not fit into memory."""
        return not fits(case.steps * case.width * case.state * 4 * COPIES)

    def programs(self, case: LayerCase) -> tuple[Run, Run]:
        """Return the forward pass and the gradient of mean(y²) with respect to parameters and input, both run once."""
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


def find() -> TorchBaseline | None:
    """Return the first installed implementation, or None."""
    for name, module, adapt in (
        ("mamba.py", "mambapy.pscan", _mambapy),
        ("mamba_ssm", "mamba_ssm.ops.selective_scan_interface", _mamba_ssm),
    ):
        try:
            torch, found = import_module("torch"), import_module(module)
        except (ImportError, OSError):  # mamba_ssm cannot be imported without CUDA
            continue
        torch.set_num_threads(usable_cores())
        return TorchBaseline(name, torch, adapt(found))
    return None


def _mambapy(module: Any) -> Callable[..., Any]:
    def scan(u, delta, A, B, C):
        factors = (delta[..., None] * A).exp()
        states = module.pscan(factors, (delta * u)[..., None] * B[:, :, None])
        return (states @ C[..., None])[..., 0]

    return scan


def _mamba_ssm(module: Any) -> Callable[..., Any]:
    def scan(u, delta, A, B, C):
        # The reference implementation, because the other needs CUDA. Its last axis is time.
        u, delta, B, C = (q.transpose(1, 2) for q in (u, delta, B, C))
        return module.selective_scan_ref(u, delta, A, B, C).transpose(1, 2)

    return scan
