"""The command line, called in this process."""

import sys

import pytest
from tests.runs.small_federation import PASSPHRASE, small_tables

from pv4fad.cli.main import main


@pytest.fixture(scope="session")
def tables():
    return small_tables()


@pytest.fixture
def pv4fad(monkeypatch, capsys):
    """Runs a command: exit code, standard output, standard error."""
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pv4fad", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
