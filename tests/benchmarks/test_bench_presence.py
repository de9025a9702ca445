"""`pv4fad bench` with the source tree's benchmarks, and without them."""

import pytest
import typer
from typer.testing import CliRunner

from pv4fad.cli import bench
from pv4fad.errors import ParameterError


def command_line() -> typer.Typer:
    app = typer.Typer()
    bench.add_to(app)
    app.command("another")(lambda: None)
    return app


def test_in_the_source_tree_the_benchmarks_are_commands():
    result = CliRunner().invoke(command_line(), ["bench", "--help"])
    assert result.exit_code == 0
    for name in ("match", "train", "score", "table", "scaling", "classes", "utility"):
        assert name in result.output


@pytest.mark.parametrize("arguments", [[], ["match"], ["table", "--rows", "2,8"]])
def test_without_the_source_tree_the_command_says_where_they_are(monkeypatch, arguments):
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    result = CliRunner().invoke(command_line(), ["bench", *arguments])
    assert isinstance(result.exception, ParameterError)
    assert "clone the repository" in str(result.exception)
