"""Settings of the whole suite."""

import logging
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from pv4fad.detection import fitting
from pv4fad.logs import _Lines, _Objects
from pv4fad.store import sealing
from pv4fad.store.sealing import insecure_fast_scrypt_for_tests

TESTS = Path(__file__).parent

# No test is timed: a busy machine must not make one fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# What takes longest begins first, so that all workers end at about the same time.
FIRST = ("lead", "deployment", "protocol", "parties", "benchmarks", "test_demo.py")

# Files that look into the same recorded or trained federation: one worker makes it for all.
TOGETHER = (
    {
        "tests/protocol/test_views.py",
        "tests/protocol/match/test_match.py",
        "tests/protocol/test_default_views.py",
        "tests/protocol/test_simulators.py",
        "tests/parties/test_bank.py",
        "tests/parties/test_discipline.py",
    },
    {
        "tests/protocol/score/test_scoring.py",
        "tests/protocol/score/test_scoring_views.py",
        "tests/protocol/score/test_questions.py",
        "tests/protocol/count/test_counts.py",
        "tests/lead/test_score_and_refresh.py",
    },
)


def pytest_configure():
    for file in set().union(*TOGETHER):
        assert (TESTS.parent / file).is_file(), f"{file} in TOGETHER is no file"


def pytest_collection_modifyitems(items):
    def place(item):
        room = item.path.relative_to(TESTS).parts[0]
        return FIRST.index(room) if room in FIRST else len(FIRST)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadfile`, but files that belong together go to one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  only here is xdist needed

    class LoadTogether(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return next((min(files) for files in TOGETHER if file in files), file)

    return LoadTogether(config, log)


@pytest.fixture(scope="session", autouse=True)
def small_local_models():
    """One round of bags of the local model instead of six.

    `tests/detection` and processes that tests start have all rounds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "ROUNDS", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def fast_stores():
    """New stores ask for little work per passphrase: the real cost is 128 MB and half a second.

    The cost is kept in the store, so processes that tests start open it as fast.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "usual_cost", insecure_fast_scrypt_for_tests)
        yield


@pytest.fixture(autouse=True)
def logs_end_with_their_test():
    """A command that runs for long writes the log of its process, to what is standard error then.

    A thread that logs in a later test would write to a stream that is closed.
    """
    root = logging.getLogger()
    level = root.level
    yield
    ours = (_Lines, _Objects)
    root.handlers[:] = [one for one in root.handlers if not isinstance(one.formatter, ours)]
    root.setLevel(level)


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
