"""Data: how sequences are laid out for a model."""

from s7.data.packing import Packed, pack

__all__ = ["Packed", "pack"]
