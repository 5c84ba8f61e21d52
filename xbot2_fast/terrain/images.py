"""Reading and writing image files with Pillow, which only these two need."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pillow() -> Any:
    """Pillow's Image module, imported at first use. Raises ImportError that says what to install."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need Pillow: pip install 'xbot2-fast[terrain]'") from error
    return Image


def read_gray(path: Path) -> NDArray[np.float64]:
    """Gray values from 0 (black) to 1 (white), shape (rows from the top, columns); 16 bits stay 16 bits."""
    with pillow().open(path) as image:
        deep = image.mode.startswith("I")
        pixels = np.asarray(image if deep else image.convert("L"), dtype=np.float64)
    return pixels / (65535.0 if deep else 255.0)


def write_rgb(path: Path, pixels: NDArray[np.uint8], colours: int = 0) -> None:
    """Write an (rows, columns, 3) picture; with `colours` a palette of so many keeps the file small."""
    image = pillow().fromarray(pixels)
    if colours:
        image = image.quantize(colours)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, optimize=True)
