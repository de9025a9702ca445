"""Nothing that comes from data becomes markup."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.report_page import Seen

from pv4fad.report.markup import join, tag, text

readable = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=30) | st.sampled_from(
    ["</td><script>alert(1)</script>", '" onload="alert(1)', "&lt;", "<!--", "' x='", "]]>"]
)


@given(readable, readable)
def test_text_and_attributes_come_back_as_they_were_and_make_no_element(words, value):
    seen = Seen(tag("p", words, title=value))
    assert seen.elements == [("p", [("title", value)])]
    assert seen.words == words


def test_markup_is_not_escaped_twice():
    inner = tag("b", "a & b")
    assert tag("p", inner) == "<p><b>a &amp; b</b></p>"
    assert text(inner) == inner
    assert join(["<", inner], ", ") == "&lt;, <b>a &amp; b</b>"


def test_text_put_together_with_markup_is_text_again():
    # An f-string or + forgets what was markup: it shows, and does no harm.
    assert text("x" + tag("b", "y")) == "x&lt;b&gt;y&lt;/b&gt;"


def test_attributes_that_are_none_are_left_out_and_names_are_spelled_as_in_html():
    assert tag("meta", http_equiv="x", class_=None) == '<meta http-equiv="x">'
    assert tag("g", class_="a", aria_hidden="true") == '<g class="a" aria-hidden="true"></g>'
