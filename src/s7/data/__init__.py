"""Data sets of sequences, and how they become batches."""

from s7.data.batching import Batch, Batching, Buckets, Packing
from s7.data.gaps import gaps
from s7.data.packing import Packed, pack
from s7.data.samples import Samples

__all__ = ["Batch", "Batching", "Buckets", "Packed", "Packing", "Samples", "gaps", "pack"]
