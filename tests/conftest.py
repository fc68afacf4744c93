"""Configuration of all tests: both precisions are available, and signatures are checked on request."""

import os
from importlib.metadata import version
from pathlib import Path

# Set before JAX is imported. Most of the time of the tests is compilation of code that runs briefly: cache compiled
# code, skip the expensive passes of LLVM, and let XLA generate simple code without splitting it. An unknown flag ends
# the process, and the last two depend on the version.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * version("jaxlib").startswith("0.10."),
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

import tests.signatures  # noqa: F401  (the hook below looks it up by name)

jax.config.update("jax_enable_x64", True)
# Checks of types and shapes at every call, a tenth of the time of the tests: `make signatures`.
if os.environ.get("S7_CHECK_SIGNATURES"):
    install_import_hook("s7", "tests.signatures.check")

# Deterministic; compiling makes the first example of a test slow, so no deadline.
settings.register_profile(
    "s7", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("s7")


@pytest.fixture
def as_users_see_it():
    """Do not check signatures, so that invalid arguments raise the library's own errors."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture
def key():
    """A random key for parameters."""
    return jax.random.key(0)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no other data folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("S7_DATA", raising=False)
    return tmp_path / "cache" / "s7"


@pytest.fixture
def place(cache, tmp_path):
    """A data folder for files, and an empty cache folder."""
    return tmp_path / "data"
