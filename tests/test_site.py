"""The site of the docs: its checks see what is wrong, and a browser can read and search it.

What a browser shows is tested where `make site` was run.
"""

import re
import runpy
import time
from pathlib import Path

import pytest

from tests.kit.chromium import opened_tab

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "tools" / "site"
SITE = ROOT / "site"

PAGE = Path("page.md")
SOURCE = "# Title\n\nSome `code`, a [link](other.md#place).\n\n| a |\n|---|\n| b |\n"
GOOD = (
    '<script src="mine.js"></script><article><h1>Title<a href="#top">¶</a></h1><p id="top">Some'
    ' <code>code</code>, a <a href="other.html#place">link</a>.</p><table><thead><tr><th>a</th>'
    "</tr></thead><tbody><tr><td>b</td></tr></tbody></table></article>"
)


def problems(folder: Path, html: str) -> list[str]:
    sources, site = folder / "sources", folder / "site"
    for made in (sources, site):
        made.mkdir()
    (sources / PAGE).write_text(SOURCE)
    (sources / "other.md").write_text("x")
    (site / "page.html").write_text(html)
    (site / "other.html").write_text("<article><p id='place'>x</p></article>")
    check = runpy.run_path(str(TOOLS / "check.py"))["problems"]
    found: list[str] = check(site, sources, [PAGE, Path("other.md")])
    return found


def test_a_good_page_has_no_problems(tmp_path):
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("other.html#place", "gone.html", "dead link gone.html"),
        ("other.html#place", "other.html#gone", "no such place: other.html#gone"),
        ("mine.js", "https://example.org/x.js", "fetches https://example.org/x.js"),
        ("Some", "Other", "reads 'Some"),
        ("<td>b</td>", "b", "1 times <td>, in the site 0"),
    ],
)
def test_a_problem_is_named(tmp_path, right, wrong, said):
    found = problems(tmp_path, GOOD.replace(right, wrong))
    assert any(one.startswith(("page.html: ", "page.md: ")) and said in one for one in found)


def test_a_page_that_is_missing_is_named(tmp_path):
    (tmp_path / "site").mkdir()
    check = runpy.run_path(str(TOOLS / "check.py"))["problems"]
    assert check(tmp_path / "site", ROOT, [Path("README.md")]) == ["README.md: is not in the site"]


def test_every_page_is_in_the_navigation(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    shown = str(runpy.run_path(str(TOOLS / "build.py"))["navigation"]())
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert f"'{page.relative_to(ROOT)}'" in shown


@pytest.fixture(scope="module")
def tab():
    if not SITE.is_dir():
        pytest.skip("no site here: run make site")
    with opened_tab() as opened:
        yield opened


def test_pages_fit_a_phone_and_fetch_nothing_from_elsewhere(tab):
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        tab.open(page, width=390, height=800)
        assert tab.value("document.documentElement.scrollWidth <= innerWidth"), page
        assert not [one for one in tab.requests() if re.match("https?:", one)], page
        assert tab.problems() == [], page


def test_search_works_from_a_file(tab):
    tab.open(SITE / "docs" / "use" / "scoring.html", width=1280, height=800)
    found = "[...document.querySelectorAll('div')].map(one => one.shadowRoot?.textContent ?? '')"
    _until(tab, "document.querySelector('.md-search__button') !== null")
    tab.value("document.querySelector('.md-search__button').click()")
    _until(tab, "document.activeElement.shadowRoot?.activeElement?.tagName === 'INPUT'")
    for letter in "telephone":
        tab.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
        tab.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
    _until(tab, f"{found}.join().includes('Compare the fingerprints by telephone')")


def _until(tab, condition):
    for _ in range(300):
        if tab.value(condition):
            return
        time.sleep(0.1)
    pytest.fail(f"never: {condition}")
