"""The look of figures and pages, from the CSS files beside this one.

    colours.css   light or dark, as the reader's system is
    chart.css     figures
    page.css      the report, from phone to laptop

No colour carries a meaning alone: curves differ in their dashes, bars have their labels on them.
"""

from __future__ import annotations

from importlib.resources import files

from pv4fad.report.markup import Markup


def _read(*names: str) -> Markup:
    folder = files(__package__)
    return Markup("".join((folder / name).read_text(encoding="utf-8") for name in names))


def page_style() -> Markup:
    """For the report."""
    return _read("colours.css", "chart.css", "page.css")


def drawing_style() -> Markup:
    """For a figure that stands alone in a file."""
    return _read("colours.css", "chart.css", "drawing.css")
