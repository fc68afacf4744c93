"""Greyscale images from PNG files, decoded by Pillow (the extra `images`)."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8


def read_grey(path: Path, shape: tuple[int, int]) -> UInt8[np.ndarray, "Y X"]:
    """Reads a greyscale image, which must have this many rows (-1: any number) and columns."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Pillow is missing; pip install 's7-ssm[images]'") from None
    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: damaged, or not an image ({error}); get it again") from None
    rows = "any" if shape[0] < 0 else shape[0]
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != shape[1] or rows not in ("any", len(pixels)):
        found = f"{'×'.join(map(str, pixels.shape))} {pixels.dtype}"
        raise ValueError(f"{path}: has {found} pixels, expected {rows}×{shape[1]} grey ones of 8 bits")
    return pixels
