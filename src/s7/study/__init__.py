"""Several models on one task: the same data, the same budget, each seed a run of its own."""

from s7.study.study import Study, Variant
from s7.study.summary import Summary

__all__ = ["Study", "Summary", "Variant"]
