"""What tests share is in `tests/kit`: they import nothing from each other."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))


def imported_from_tests(file: Path) -> set[str]:
    """The modules of `tests` that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found.add(node.module or "")
    return {one for one in found if one.split(".")[0] in ("tests", "conftest")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_helpers_come_from_the_kit(file):
    assert all(one.startswith("tests.kit.") for one in imported_from_tests(file))


def test_the_kit_holds_no_tests():
    assert not list((TESTS / "kit").glob("test_*.py"))
    assert not list((TESTS / "kit").glob("conftest.py"))
