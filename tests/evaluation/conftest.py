"""A scored run, made once."""

import sys

import pytest
from tests.evaluation.scored_run import (
    finished_document,
    generated,
    predictions,
    write_data,
    write_run,
)

from pv4fad.cli.main import main


@pytest.fixture(scope="session")
def tables():
    return generated()


@pytest.fixture(scope="session")
def document(tables):
    return finished_document(tables)


@pytest.fixture(scope="session")
def data(tables, tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), tables)


@pytest.fixture
def made(tables):
    return predictions(tables.test.transactions)


@pytest.fixture
def run(document, made, tmp_path):
    return write_run(tmp_path / "run", document, made)


@pytest.fixture
def pv4fad(monkeypatch, capsys):
    """Runs a command: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["pv4fad", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, " ".join(captured.err.split())

    return call
