"""Recognised lines and an engine that finds them, for tests without the models."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from app.documents.ocr.layout import Found


def found(
    text: str, x: float, y: float, width: float, *, height: float = 20, angle: float = 0, score: float = 0.99
) -> Found:
    """A line on a page that is turned by `angle` degrees around its top left."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    first, second, third, fourth = ((a * cos - b * sin, a * sin + b * cos) for a, b in corners)
    return Found((first, second, third, fourth), text, score)


class ListedEngine:
    """Finds the same lines on each image, and takes a second for each."""

    def __init__(self, lines: Sequence[Found], pass_time: Callable[[float], None] = lambda _: None) -> None:
        self._lines = lines
        self._pass_time = pass_time

    def read(self, image: Any, is_over: Callable[[], bool]) -> tuple[list[Found], bool]:
        """The lines for which there is time."""
        read: list[Found] = []
        for line in self._lines:
            if is_over():
                return read, False
            self._pass_time(1)
            read.append(line)
        return read, True


def write_image(kind: str = "PNG", size: tuple[int, int] = (60, 40), mode: str = "RGB", **options: Any) -> bytes:
    """A white image with a dark top left quarter."""
    image = Image.new("L", size, 255)
    image.paste(0, (0, 0, size[0] // 2, size[1] // 2))
    return save(image.convert(mode), kind, **options)


def save(image: Any, kind: str, **options: Any) -> bytes:
    """The bytes of an image file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def white(height: int = 40, width: int = 60) -> Any:
    """The pixels of an empty page."""
    return np.full((height, width, 3), 255, np.uint8)
