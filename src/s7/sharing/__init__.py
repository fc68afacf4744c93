"""Trained models for others: a folder with the model, its card and expected outputs, and its upload to a hub."""

from s7.sharing.folder import write_shared
from s7.sharing.upload import upload

__all__ = ["upload", "write_shared"]
