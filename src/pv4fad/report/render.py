"""Pages and drawings from the templates in `templates/`.

Every value is escaped (jinja2 autoescape), in pages and in drawings; templates alone hold markup.
The style is in the CSS files beside the templates:

    colours.css   light or dark, as the reader's system is; on paper light
    chart.css     figures
    page.css      the report, from phone to laptop
    print.css     the same on paper: always light, tables as tables
    drawing.css   a figure in a file of its own

No colour carries a meaning alone: curves differ in their dashes, bars have their labels on them.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from pv4fad.report.canvas import Figure

ENVIRONMENT = Environment(
    loader=PackageLoader("pv4fad.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page_style() -> str:
    """For pages."""
    return _read("colours.css", "chart.css", "page.css", "print.css")


def drawing_style() -> str:
    """For a figure that stands alone in a file."""
    return _read("colours.css", "chart.css", "drawing.css")


def render_page(
    template: str, *, title: str, environment: Environment = ENVIRONMENT, **values: object
) -> str:
    """A self-contained HTML file: no script, no outside request, one style by its hash.

    Its Content-Security-Policy allows that style and nothing else: should text ever get through as
    markup, a browser would still neither run nor fetch anything.
    """
    style = page_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = environment.get_template(template)
    return page.render(title=title, style=style, style_hash=digest, **values) + "\n"


def render_drawing(figure: Figure) -> str:
    """An SVG file with a style of its own."""
    drawing = ENVIRONMENT.get_template("drawing.svg")
    return drawing.render(figure=figure, style=drawing_style()).strip() + "\n"


def _read(*names: str) -> str:
    folder = files("pv4fad.report") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)
