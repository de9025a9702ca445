"""What a newcomer sees first works, and the README shows what it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pv4fad.cli.demo import MARK, steps

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()

# Shares are drawn afresh in every run.
_SHARES = re.compile(r"held .*? modulo", re.DOTALL)


def pv4fad(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pv4fad.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(place) -> str:
    """The demo at a small size, into a folder that an earlier, interrupted demo has left."""
    (place / "demo").mkdir()
    (place / "demo" / MARK).touch()
    (place / "demo" / "left over").touch()
    done = pv4fad(place, "demo", "--transactions", "2000")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_shows_every_command_it_runs(printed):
    for step in steps(Path("demo"), 2000, 3):
        assert f"$ pv4fad {' '.join(step.arguments)}" in printed


def test_the_demo_trains_with_noise_and_spends_epsilon(printed):
    assert re.search(r"spent 1, limit 1, left 0", printed)


def test_the_demo_scores_every_payment_of_the_test_period(printed, place):
    wanted = place / "demo/data/scenario01/test/swift/predictions_format.csv"
    ids = [
        [line.split(",")[0] for line in file.read_text().splitlines()]
        for file in (wanted, place / "demo/predictions.csv")
    ]
    assert ids[0] == ids[1]


def test_the_demo_finds_the_exact_run_equal_to_a_trusted_third_party(printed):
    assert "100 % equal" in printed


def test_the_demo_replaces_an_earlier_demo(printed, place):
    assert not (place / "demo" / "left over").exists()
    assert (place / "demo" / "run" / "run.json").is_file()


def test_the_readme_shows_what_the_example_prints(printed):
    block = next(one for one in re.findall(r"```\n(.*?)```", README, re.DOTALL) if "Ada" in one)
    assert _SHARES.sub("#", block) in _SHARES.sub("#", printed)


@pytest.mark.parametrize("holds", ["a file", "a link"])
def test_the_demo_replaces_nothing_that_it_did_not_make(tmp_path, holds):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").touch()
    if holds == "a link":
        (mine / MARK).touch()
        (tmp_path / "demo").symlink_to(mine)
    else:
        mine.rename(tmp_path / "demo")
    refused = pv4fad(tmp_path, "demo")
    assert refused.returncode == 2
    assert "pv4fad demo FOLDER" in refused.stderr
    assert (tmp_path / "demo" / "precious").exists()
