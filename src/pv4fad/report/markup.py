"""HTML and SVG that cannot be injected into: text is escaped unless it was made here.

    tag("td", "a < b")                       <td>a &lt; b</td>
    tag("p", "see ", tag("b", "here"))       <p>see <b>here</b></p>

Element and attribute names are written in this package and nowhere else; values may be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_EMPTY = {"meta", "br", "hr"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | float | None


def text(value: Content) -> Markup:
    """A value as it is read, whatever characters it has; markup stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else escape(str(value)))


def join(parts: Iterable[Content], between: str = "") -> Markup:
    """One after the other."""
    return Markup(text(between).join(text(part) for part in parts))


def tag(name: str, /, *content: Content, **attributes: Content) -> Markup:
    """An element.  `class_` is class, `aria_label` is aria-label; None leaves an attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(content)}</{name}>")
