"""Tables for wide and narrow screens: on a phone every row becomes a card with labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pv4fad.report.markup import Content, Markup, join, tag


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: Sequence[int] = ()
) -> Markup:
    """`numbers`: columns that are aligned as numbers."""

    def kind(column: int) -> str | None:
        return "number" if column in numbers else None

    head = tag(
        "tr", *(tag("th", one, scope="col", class_=kind(k)) for k, one in enumerate(headings))
    )
    body = (
        tag(
            "tr",
            *(
                tag("td", tag("span", cell), data_label=headings[k] or None, class_=kind(k))
                for k, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    return tag("table", tag("thead", head), tag("tbody", join(body)))


def facts(rows: Iterable[tuple[str, Content]]) -> Markup:
    """Name and value, line by line."""
    lines = (join([tag("dt", name), tag("dd", value)]) for name, value in rows)
    return tag("dl", *lines, class_="facts")
