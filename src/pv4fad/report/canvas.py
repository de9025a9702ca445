"""What figures are made of: shapes, scales, ticks, labels.  `render` turns them into SVG.

The drawing is as wide as a phone and is scaled up on larger screens, so that its text stays
readable.  Colours are CSS classes: `s0`, `s1`, `s2` for series, the rest by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

WIDTH = 380
LEFT, RIGHT = 44, 370
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Line:
    """A path; `kind` is its CSS class, as for all shapes."""

    element: ClassVar[str] = "path"
    path: str
    kind: str


@dataclass(frozen=True)
class Label:
    """A piece of text."""

    element: ClassVar[str] = "text"
    x: float
    y: float
    words: str
    anchor: str = "start"
    kind: str = "label"


@dataclass(frozen=True)
class Box:
    """A rectangle; `title` is what a reader sees who points at it."""

    element: ClassVar[str] = "rect"
    x: float
    y: float
    width: float
    height: float
    title: str
    kind: str


@dataclass(frozen=True)
class Dot:
    """A circle around a point."""

    element: ClassVar[str] = "circle"
    x: float
    y: float
    radius: float
    title: str
    kind: str


Shape = Line | Label | Box | Dot


@dataclass(frozen=True)
class Figure:
    """A drawing, and what it shows in words for readers who cannot see it."""

    width: ClassVar[int] = WIDTH
    name: str
    title: str
    description: str
    height: float
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Scale:
    """From values (0 to `largest`) to places on the canvas."""

    largest: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + value / self.largest * (self.end - self.start), 1)


def rows_of_grid(y: Scale, marks: Iterable[float]) -> list[Shape]:
    """Horizontal lines with their values on the left."""
    shapes: list[Shape] = []
    for mark in marks:
        shapes.append(Line(f"M{LEFT} {y(mark)}H{RIGHT}", "grid"))
        shapes.append(Label(LEFT - 6, y(mark) + 4, short(mark), "end", "tick"))
    return shapes


def columns_of_grid(x: Scale, marks: Iterable[float], top: float, bottom: float) -> list[Shape]:
    """Vertical lines with their values below."""
    shapes: list[Shape] = []
    for mark in marks:
        shapes.append(Line(f"M{x(mark)} {top}V{bottom}", "grid"))
        shapes.append(Label(x(mark), bottom + 14, short(mark), "middle", "tick"))
    return shapes


def ticks(largest: float, most: int = 6) -> tuple[float, ...]:
    """Round numbers from 0 to `largest` or a little beyond, at most `most` of them."""
    if not largest > 0:
        return (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(largest / (most - 1)))
    enough = largest * (1 - 1e-9)  # 0.3 must not need a tick beyond 0.3
    step = next(size * power for size in _STEPS if size * power * (most - 1) >= enough)
    return tuple(step * k for k in range(math.ceil(enough / step) + 1))


def short(value: float) -> str:
    """As few digits as say it: 0.25, 3, 1.2M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
