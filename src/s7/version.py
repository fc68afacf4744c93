"""The version, where it can be read without importing JAX."""

__version__ = "0.18.0"
