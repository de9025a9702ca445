"""Draw the packages of PV4FAD and the direction of their imports.

    python tools/architecture.py > docs/figures/architecture.svg      (`make docs` does it)

The layers are those of the import linter's contract in pyproject.toml, and the words are the first
sentence of each package's docstring, so the picture cannot say anything that the code does not.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pv4fad"
CONTRACT = "Imports point one way"

WIDTH, LEFT, RIGHT = 900, 40, 892
LINE, PAD, BETWEEN, SIDE_BY_SIDE = 16, 9, 8, 16
CHARACTER = 6.7
"""The width of a character of 12 pixels, on average."""

_STYLE = """
  text { font: 12px sans-serif; fill: #333 }
  .name { font-weight: bold; font-size: 13px; fill: #111 }
  .room { fill: #eef3f8; stroke: #7d93a8 }
  .arrow { stroke: #7d93a8; fill: none; stroke-width: 2 }
  .both { stroke: #7d93a8; fill: none }
"""


def _contract() -> dict[str, list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = (one for one in settings["contracts"] if one["name"] == CONTRACT)
    return dict(found)


def _rooms(layer: str) -> list[str]:
    return [room.strip(" ()") for room in re.split(r"[|:]", layer)]


def purpose(room: str) -> str:
    """The first sentence of a room's docstring."""
    package, module = PACKAGE / room / "__init__.py", PACKAGE / f"{room}.py"
    path = package if package.is_file() else module
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"\.(?: |$)", paragraph)[0].replace("`", "")


def picture() -> str:
    """The whole SVG file."""
    parts, top = [], 30
    for layer in _contract()["layers"]:
        drawn, height = _row(layer, top)
        parts.append(drawn)
        top += height + BETWEEN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 4}"'
            ' role="img" aria-label="The packages of PV4FAD in layers">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{WIDTH}" height="{top + 4}" fill="white"/>',
            f'<text x="{LEFT}" y="19">A package imports those below it, never one above it.'
            " Packages side by side with an arrow between them may import each other.</text>",
            f'<path class="arrow" d="M 18 34 V {top - 12} m -6 -8 l 6 8 l 6 -8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _row(layer: str, top: int) -> tuple[str, int]:
    """A layer from `top` down, and its height."""
    rooms = _rooms(layer)
    width = (RIGHT - LEFT - SIDE_BY_SIDE * (len(rooms) - 1)) / len(rooms)
    name_width = 104 if len(rooms) == 1 else 0
    fits = int((width - name_width - 2 * PAD) / CHARACTER)
    texts = {room: textwrap.wrap(purpose(room), fits) for room in rooms}
    n_lines = max(map(len, texts.values())) + (len(rooms) > 1)
    height = n_lines * LINE + 2 * PAD
    parts = []
    for i, room in enumerate(rooms):
        x = LEFT + i * (width + SIDE_BY_SIDE)
        parts.append(_room(room, texts[room], (x, top, width, height), name_width))
    if ":" in layer:
        for i in range(1, len(rooms)):
            x, y = LEFT + i * (width + SIDE_BY_SIDE) - SIDE_BY_SIDE, top + height / 2
            parts.append(
                f'<path class="both" d="M {x + 2:.0f} {y:.0f} h {SIDE_BY_SIDE - 4}'
                ' m -3 -3 l 3 3 l -3 3 m -6 -6 l -3 3 l 3 3"/>'
            )
    return f'<g class="layer">\n{chr(10).join(parts)}\n</g>', height


def _room(
    name: str, lines: list[str], box: tuple[float, float, float, float], name_width: int
) -> str:
    x, y, width, height = box
    first = y + PAD + 12
    beside, below = (name_width, 0) if name_width else (0, LINE)
    words = [
        f'<text x="{x + PAD + beside:.0f}" y="{first + below + i * LINE:.0f}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<rect class="room" id="{name}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}"'
            f' height="{height:.0f}" rx="4"/>',
            f'<text class="name" x="{x + PAD:.0f}" y="{first:.0f}">{name}</text>',
            *words,
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(picture())
