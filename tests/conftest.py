"""Settings of the whole suite."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

from pv4fad.detection import local_model

TESTS = Path(__file__).parent

# No test is timed: a busy machine must not make one fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# What takes longest begins first, so that all workers end at about the same time.
FIRST = ("lead", "deployment", "protocol", "parties", "benchmarks", "test_demo.py")


def pytest_collection_modifyitems(items):
    """For `--dist loadgroup`: a file is one group, or belongs to that of its mark `xdist_group`.

    Files that look into the same recorded or trained federation have the same mark, so that one
    worker makes it once for all of them.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(TESTS).as_posix()))

    def place(item):
        room = item.path.relative_to(TESTS).parts[0]
        return FIRST.index(room) if room in FIRST else len(FIRST)

    items.sort(key=place)


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
