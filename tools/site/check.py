"""What a built site must be: whole, self-contained, and the same pages as on GitHub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt

_SHOWN = ("h1", "h2", "h3", "h4", "li", "table", "tr", "td", "pre", "code", "strong", "em", "img")
_FETCHES = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Ids and links of a page, and what its article shows."""

    def __init__(self, html: str, *, article: bool) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.shown: Counter[str] = Counter()
        self._text: list[str] = []
        self._inside = not article
        self.feed(html)

    @property
    def text(self) -> str:
        """Without spaces, and without the signs that link to headings."""
        return re.sub(r"[\s¶]", "", "".join(self._text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            self.links.append(given["href"])
        if tag in _FETCHES and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given.get(_FETCHES[tag], ""))
        self._inside |= tag == "article"
        self.shown[tag] += self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "article"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._text.append(data)


def problems(site: Path, sources: Path, pages: Iterable[Path]) -> list[str]:
    """All there are, in words; empty for a good site."""
    built = {
        path: Page(path.read_text(encoding="utf-8"), article=True)
        for path in sorted(site.rglob("*.html"))
    }
    found = [f"{path.relative_to(site)}: {one}" for path in built for one in _dead(path, built)]
    found += [f"{path.relative_to(site)}: {one}" for path in built for one in _foreign(built[path])]
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import)\s*[\"']?(https?:[^\"')]+)", sheet.read_text())
        found += [f"{sheet.relative_to(site)}: fetches {url}" for url in urls]
    for page in pages:
        name = "index.html" if page.name == "README.md" else page.with_suffix(".html").name
        shown = built.pop(site / page.parent / name, None)
        found += [f"{page}: {one}" for one in _differs((sources / page).read_text(), shown)]
    return found + [f"{path.relative_to(site)}: of no page" for path in built]


def _dead(path: Path, built: dict[Path, Page]) -> Iterator[str]:
    for link in built[path].links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, fragment = unquote(link).partition("#")
        aim = (path.parent / target).resolve() if target else path
        aim = aim / "index.html" if aim.is_dir() else aim
        if not aim.is_file():
            yield f"dead link {link}"
        elif fragment and aim in built and fragment not in built[aim].ids:
            yield f"no such place: {link}"


def _foreign(page: Page) -> Iterator[str]:
    for address in page.fetched:
        if re.match(r"(https?:)?//", address):
            yield f"fetches {address}"


def _differs(source: str, shown: Page | None) -> Iterator[str]:
    """From what GitHub shows, which is CommonMark with tables."""
    if shown is None:
        yield "is not in the site"
        return
    html = MarkdownIt("commonmark").enable("table").render(source)
    wanted = Page(html, article=False)
    for tag in _SHOWN:
        if wanted.shown[tag] != shown.shown[tag]:
            yield f"{wanted.shown[tag]} times <{tag}>, in the site {shown.shown[tag]}"
    if wanted.text != shown.text:
        pairs = zip(wanted.text, shown.text, strict=False)
        at = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
        yield f"reads {wanted.text[at : at + 40]!r}, in the site {shown.text[at : at + 40]!r}"
