"""The picture of the packages is that of the import linter and of the folders in src."""

import re
import runpy
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "architecture.svg"
PAGE = ROOT / "docs" / "understand" / "architecture.md"
PACKAGE = ROOT / "src" / "pv4fad"

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> list[set[str]]:
    """The rooms of every layer of the picture, from the top down."""
    boxes: dict[float, set[str]] = {}
    for box in ElementTree.parse(PICTURE).iter(f"{_SVG}rect"):  # noqa: S314  our own file
        if box.get("class") == "room":
            boxes.setdefault(float(box.attrib["y"]), set()).add(box.attrib["id"])
    return [boxes[y] for y in sorted(boxes)]


def test_the_layers_are_those_that_the_import_linter_checks(drawn):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (
        contract["layers"]
        for contract in settings["contracts"]
        if contract["name"] == "Imports point one way"
    )
    assert drawn == [set(re.findall(r"\w+", layer)) for layer in layers]


def test_every_package_and_module_of_the_source_is_in_the_picture(drawn):
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert set().union(*drawn) == packages | modules


def test_the_picture_is_what_make_docs_draws():
    tool = runpy.run_path(str(ROOT / "tools" / "architecture.py"))
    assert PICTURE.read_text() == tool["picture"]()


def test_the_page_says_what_every_room_holds(drawn):
    named = set(re.findall(r"`(\w+)(?:/|\.py)?`", PAGE.read_text()))
    assert set().union(*drawn) <= named


def test_files_that_the_page_names_exist():
    named = re.findall(r"\b(?:\w+/)+\w+\.py\b", PAGE.read_text())
    assert len(named) > 4
    for path in named:
        assert (PACKAGE / path).is_file() or (ROOT / path).is_file(), path
