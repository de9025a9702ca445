"""Nothing that comes from data becomes markup: not in a table, not in a drawing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.report_page import Seen

from pv4fad.report import render
from pv4fad.report.canvas import Box, Dot, Figure, Label, Line
from pv4fad.report.render import ENVIRONMENT, render_drawing

readable = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=30
) | st.sampled_from(
    ["</td><script>alert(1)</script>", '" onload="alert(1)', "&lt;", "<!--", "' x='", "]]>"]
)


@given(readable, readable)
def test_headings_and_cells_come_back_as_they_were_and_make_no_element(heading, cell):
    table = ENVIRONMENT.get_template("macros.html").module.table([heading], [[cell]])
    seen = Seen(str(table))
    assert [name for name, _ in seen.elements] == [
        *("table", "thead", "tr", "th", "tbody", "tr", "td", "span")
    ]
    assert ("td", [("data-label", heading)]) in seen.elements
    assert seen.words.split("\n", 1)[1].startswith(heading)
    assert seen.words.rstrip("\n").endswith(cell.rstrip("\n"))


@given(readable)
def test_texts_of_a_drawing_come_back_as_they_were_and_make_no_element(words):
    shapes = (
        Line("M0 0h1", "grid"),
        Label(1, 2, words),
        Box(1, 2, 3, 4, words, "bar s0"),
        Dot(1, 2, 3, words, "dot s0"),
    )
    drawing = render_drawing(Figure("name", words, words, 10, shapes))
    seen = Seen(drawing[: drawing.index("<style>")] + drawing[drawing.index("</style>") + 8 :])
    assert [name for name, _ in seen.elements] == [
        *("svg", "title", "desc", "path", "text", "rect", "title", "circle", "title")
    ]
    assert seen.words.count(words) >= 5


def test_a_template_without_its_value_is_an_error():
    with pytest.raises(Exception, match="undefined"):
        ENVIRONMENT.from_string("{{ missing }}").render()


def test_only_the_style_of_this_package_is_put_in_unescaped():
    folder = Path(render.__file__).parent / "templates"
    found = {
        expression.strip()
        for file in folder.rglob("*.*")
        for expression in file.read_text().replace("}}", "{{").split("{{")
        if "safe" in expression and "|" in expression
    }
    assert found == {"style | safe", '(text or "").split("; ") | join("<br>" | safe)'}
