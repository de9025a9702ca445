"""Settings of the whole suite."""

import sys

import pytest
from hypothesis import settings

from pv4fad.detection import local_model

# No test is timed: a busy machine must not make one fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def small_local_models():
    """One copy of the local model's forests instead of four: every prepared run fits five models.

    `tests/detection` and processes that tests start have all copies.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_model, "COPIES", 1)
        yield


@pytest.fixture
def command_line(monkeypatch, capsys):
    """Runs `pv4fad` with arguments: exit code, standard output, standard error."""

    from pv4fad.cli.main import main  # noqa: PLC0415  it loads everything, and few tests need that

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
