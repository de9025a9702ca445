"""`pv4fad bench` with the source tree's benchmarks, and without them."""

import pytest
from typer.testing import CliRunner

from pv4fad.cli import lazy
from pv4fad.cli.main import app
from pv4fad.errors import ParameterError


def test_in_the_source_tree_the_benchmarks_are_commands():
    result = CliRunner().invoke(app, ["bench", "--help"])
    assert result.exit_code == 0
    for name in ("match", "train", "score", "table", "scaling", "classes", "utility"):
        assert name in result.output


@pytest.mark.parametrize("arguments", [[], ["match"], ["table", "--rows", "2,8"]])
def test_without_the_source_tree_the_command_says_where_they_are(monkeypatch, arguments):
    monkeypatch.setattr(lazy, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(result.exception, ParameterError)
    assert "clone the repository" in str(result.exception)
