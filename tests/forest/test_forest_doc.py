"""The page that explains the forest shows what the code computes."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "understand" / "forest.md"


def test_the_worked_example_prints_what_the_page_shows():
    # The closing fence of a code block follows a blank line, so doctest does not take it as output.
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 30
