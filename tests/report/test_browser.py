"""Report and dossier as a real browser shows them: from phone to laptop, light and dark."""

import pytest
from tests.kit.chromium import Browser, opened_tab
from tests.kit.report_page import FIGURES, HOSTILE

WINDOWS = pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")]
)

_PAPER = 672  # pixels of CSS: A4 between its margins

# The boxes of all texts of a figure: outside of it they are cut off, on each other unreadable.
_TEXTS = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(
      one => [one.textContent, one.getBoundingClientRect()]);
    boxes.forEach(([words, box], number) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`cut off: ${words}`);
      for (const [others, other] of boxes.slice(number + 1))
        if (box.left < other.right && other.left < box.right &&
            box.top + 2 < other.bottom && other.top + 2 < box.bottom)
          found.push(`on each other: ${words} | ${others}`);
    });
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def tab():
    with opened_tab() as opened:
        yield opened


@WINDOWS
def test_the_report_fits_the_window_without_an_error_or_a_request(tab, report, width, scheme):
    tab.open(report, width=width, height=800, scheme=scheme)
    assert tab.problems() == []
    assert tab.requests() == [report.resolve().as_uri()]
    assert tab.value("document.documentElement.scrollWidth") <= width
    # A table that is cut off inside the window would not scroll the page.
    assert tab.value(
        "[...document.querySelectorAll('td, dd, p')]"
        ".every(one => one.scrollWidth <= one.clientWidth + 1)"
    )


@WINDOWS
def test_all_figures_are_drawn_and_their_texts_can_be_read(tab, report, width, scheme):
    tab.open(report, width=width, height=800, scheme=scheme)
    sizes = tab.value(
        "[...document.querySelectorAll('figure')].map(one => {"
        " const box = one.querySelector('svg').getBoundingClientRect();"
        " return [one.id, box.width, box.height]; })"
    )
    assert {name.removeprefix("figure-") for name, _, _ in sizes} == FIGURES
    for name, drawn_width, drawn_height in sizes:
        assert drawn_width > 250, name
        assert drawn_height > 80, name
    assert tab.value(_TEXTS) == []


def test_dark_and_light_are_different_and_follow_the_system(tab, report):
    shades = {}
    for scheme in ("light", "dark"):
        tab.open(report, width=1280, height=800, scheme=scheme)
        shades[scheme] = tab.value("getComputedStyle(document.body).backgroundColor")
    assert shades == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 29)"}


def test_hostile_text_stays_text(tab, report):
    tab.open(report, width=1280, height=800)
    assert tab.value("document.title").startswith("PV4FAD report")
    assert tab.value("document.querySelectorAll('script, img').length") == 0
    assert HOSTILE in tab.value("document.body.innerText")


def test_should_markup_get_through_the_browser_still_runs_and_fetches_nothing(
    tab: Browser, report, tmp_path
):
    """Also shows that the browser tells us of errors: the tests above can fail."""
    broken = tmp_path / "broken.html"
    attack = '<script>document.title = "owned"</script><img src="https://example.org/x.png">'
    broken.write_text(report.read_text().replace("<main>", f"<main>{attack}"))
    tab.open(broken, width=1280, height=800)
    assert tab.value("document.title").startswith("PV4FAD report")
    assert any("Content Security Policy" in one for one in tab.problems())
    assert tab.blocked() == ["https://example.org/x.png"]


@pytest.mark.parametrize(("width", "media"), [(360, "screen"), (1280, "screen"), (_PAPER, "print")])
def test_every_page_of_a_dossier_fits_the_window_and_the_paper(
    tab, hostile_dossier, tmp_path, width, media
):
    for name, text in hostile_dossier.items():
        (tmp_path / name).write_text(text)
    for file in sorted(tmp_path.glob("*.html")):
        tab.open(file, width=width, height=800)
        tab.call("Emulation.setEmulatedMedia", media=media)
        assert tab.problems() == [], file.name
        assert tab.requests() == [file.resolve().as_uri()], file.name
        assert tab.value("document.documentElement.scrollWidth") <= width, file.name
        assert tab.value(_TEXTS) == [], file.name
        assert tab.value("document.querySelectorAll('script, img').length") == 0, file.name
    tab.call("Emulation.setEmulatedMedia", media="")


def test_on_paper_a_dossier_is_light_with_tables_and_without_links_to_click(
    tab, hostile_dossier, tmp_path
):
    file = tmp_path / "validation.html"
    file.write_text(hostile_dossier["validation.html"])
    tab.open(file, width=_PAPER, height=800, scheme="dark")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.call("Emulation.setEmulatedMedia", media="print", features=dark)
    seen = "getComputedStyle(document.querySelector('%s')).%s"
    assert tab.value(seen % ("body", "backgroundColor")) == "rgb(255, 255, 255)"
    assert tab.value(seen % ("thead", "display")) == "table-header-group"
    assert tab.value(seen % ("nav", "display")) == "none"
    tab.call("Emulation.setEmulatedMedia", media="")
