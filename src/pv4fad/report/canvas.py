"""What figures are made of: scales, ticks, labels, and the SVG around them.

The drawing is as wide as a phone and is scaled up on larger screens, so that its text stays
readable.  Colours are CSS classes (`style`): `s0`, `s1`, `s2` for series, the rest by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pv4fad.report.markup import Markup, join, tag

WIDTH = 380
LEFT, RIGHT = 44, 370
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Figure:
    """A drawing, and what it shows in words for who cannot see it."""

    name: str
    title: str
    description: str
    height: float
    drawing: Markup

    def svg(self, *, stand_alone_style: Markup | None = None) -> Markup:
        """The drawing for a page, or with a style of its own for a file of its own."""
        alone = stand_alone_style is not None
        return tag(
            "svg",
            tag("title", self.title, id=f"{self.name}-title"),
            tag("desc", self.description, id=f"{self.name}-desc"),
            tag("style", stand_alone_style) if alone else None,
            self.drawing,
            xmlns="http://www.w3.org/2000/svg" if alone else None,
            viewBox=f"0 0 {WIDTH} {self.height:g}",
            class_="chart",
            role="img",
            aria_labelledby=f"{self.name}-title {self.name}-desc",
        )


@dataclass(frozen=True)
class Scale:
    """From values (0 to `largest`) to places on the canvas."""

    largest: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + value / self.largest * (self.end - self.start), 1)


def label(x: float, y: float, words: str, anchor: str = "start", kind: str = "label") -> Markup:
    """A piece of text."""
    return tag("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def rows_of_grid(y: Scale, marks: Iterable[float], unit: str = "") -> Markup:
    """Horizontal lines with their values on the left."""
    return join(
        join(
            [
                tag("path", d=f"M{LEFT} {y(mark)}H{RIGHT}", class_="grid"),
                label(LEFT - 6, y(mark) + 4, short(mark) + unit, "end", "tick"),
            ]
        )
        for mark in marks
    )


def columns_of_grid(x: Scale, marks: Iterable[float], top: float, bottom: float) -> Markup:
    """Vertical lines with their values below."""
    return join(
        join(
            [
                tag("path", d=f"M{x(mark)} {top}V{bottom}", class_="grid"),
                label(x(mark), bottom + 14, short(mark), "middle", "tick"),
            ]
        )
        for mark in marks
    )


def ticks(largest: float, most: int = 6) -> tuple[float, ...]:
    """Round numbers from 0 to `largest` or a little beyond, at most `most` of them."""
    if not largest > 0:
        return (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(largest / (most - 1)))
    enough = largest * (1 - 1e-9)  # 0.3 must not need a tick beyond 0.3
    step = next(one * power for one in _STEPS if one * power * (most - 1) >= enough)
    return tuple(step * k for k in range(math.ceil(enough / step) + 1))


def short(value: float) -> str:
    """As few digits as say it: 0.25, 3, 1.2M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
