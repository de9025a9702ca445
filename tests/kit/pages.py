"""Pages of the docs, taken apart."""

import re
from pathlib import Path


def sections(page: Path) -> dict[str, str]:
    """The text below each heading."""
    parts = re.split(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows but the heads."""
    lines = [line.replace(r"\|", "/") for line in text.splitlines()]
    body = [
        line
        for line, before in zip(lines[1:], lines, strict=False)
        if line.startswith("|") and before.startswith("|") and not line.startswith("|---")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def anchors(page: Path) -> set[str]:
    """The fragments that a link to a heading of this page can have."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in sections(page))
    return {heading.replace(" ", "-") for heading in kept}
