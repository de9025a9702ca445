"""What a newcomer sees first works, and the docs show what it prints."""

import io
import json
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from pv4fad.cli.demo import MARK, steps
from pv4fad.cli.main import main
from pv4fad.run.scoring_record import read_record
from tests.kit.report_page import FIGURES

ROOT = Path(__file__).parents[1]
TRANSACTIONS = 6000  # few, but one of the test period is anomalous
EXAMPLE = (ROOT / "docs" / "use" / "example.md").read_text()

# Shares are drawn afresh in every run.
_SHARES = re.compile(r"held .*? modulo", re.DOTALL)


def pv4fad(folder: Path, *words: str) -> str:
    """What a command prints that is called in a folder; it must succeed."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["pv4fad", *words])
        main()
    return printed.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(place) -> str:
    """The demo at a small size, into a folder that an earlier, interrupted demo has left."""
    (place / "demo").mkdir()
    (place / "demo" / MARK).touch()
    (place / "demo" / "left over").touch()
    return pv4fad(place, "demo", "--transactions", str(TRANSACTIONS))


def test_the_demo_shows_every_command_it_runs(printed):
    for step in steps(Path("demo"), TRANSACTIONS, 3):
        for line in step.lines:
            assert f"$ pv4fad {' '.join(line)}" in printed


def test_the_demo_trains_with_noise_and_spends_epsilon(printed, place):
    shown = pv4fad(place, "ledger", "show", "demo/run/bank01", "--key-file", "demo/key")
    assert re.search(r"spent 1, limit 1, left 0", shown)


def test_the_demo_scores_every_payment_of_the_test_period(printed, place):
    wanted = place / "demo/data/scenario01/test/swift/predictions_format.csv"
    ids = [
        [line.split(",")[0] for line in file.read_text().splitlines()]
        for file in (wanted, place / "demo/run/payment-network/predictions.csv")
    ]
    assert ids[0] == ids[1]


def test_the_demo_finds_a_run_without_noise_equal_to_a_trusted_third_party(printed):
    assert "100 % equal" in printed
    for compared in ("released counts", "bits", "alerts", "levels", "scores"):
        found = re.search(rf"{compared} +│ (\S+) +│ \1 ", printed)
        assert found, compared
        assert found[1] != "0", compared  # something was asked


def test_the_demo_ends_with_what_was_found_seen_and_spent(printed, place):
    table = printed.split("In short")[1]
    for part in ("with the banks", "all data joined", "each bank", "training", "scoring", "ε = 1"):
        assert part in table
    record = read_record(place / "demo/run/payment-network/predictions.csv")
    assert f"one bit about {record.records_known:,} accounts" in table
    words = " ".join(table.replace("│", " ").split())
    asked, accounts = record.learned.records_asked, record.learned.records
    assert f"asked about {asked:,} of {accounts:,} accounts" in words
    assert f"{record.records_positive:,} of them not ordinary" in words
    found = re.findall(r"of 1 \(\s*\d+ %\)", table)  # the one anomaly, for every detector
    assert len(found) >= 6


def test_the_demo_writes_a_whole_report(printed, place):
    page = (place / "demo/report.html").read_text()
    for figure in FIGURES:
        assert f'id="figure-{figure}"' in page
    for bank in ("bank01", "bank02", "bank03"):
        assert f"Entries of {bank}" in page
    record = read_record(place / "demo/run/payment-network/predictions.csv")
    assert {one.phase for one in record.phases} == {"prepare", "match", "score"}
    assert sum(one.bytes for one in record.traffic) == sum(one.bytes for one in record.phases)


def test_the_demo_writes_a_dossier_in_which_the_signed_logs_of_all_parties_fit(printed, place):
    assert "For a supervisor, to print and fill in: demo/dossier/index.html" in printed
    dossier = json.loads((place / "demo/dossier/dossier.json").read_text())
    # In so small a demo there may be no alert, and then there is no line.
    assert {gap["what"] for gap in dossier["gaps"]} <= {"Above and below the line"}
    targets = {one["target"] for one in dossier["attacks"]["findings"]}
    assert "which {records} that it never scored are not ordinary" in targets
    audit = dossier["integrity"]["audit"]
    assert len(audit["parties"]) == 5
    assert audit["faults"] == []
    assert audit["n_messages"] > 30
    assert (place / "demo/dossier/index.html").is_file()


def test_the_demo_replaces_an_earlier_demo(printed, place):
    assert not (place / "demo" / "left over").exists()
    assert (place / "demo" / "run" / "run.json").is_file()


def test_the_page_shows_what_the_example_prints(place):
    printed = pv4fad(place, "example")
    block = next(one for one in re.findall(r"```\n(.*?)```", EXAMPLE, re.DOTALL) if "Ada" in one)
    assert _SHARES.sub("#", block) in _SHARES.sub("#", printed)


@pytest.mark.parametrize("holds", ["a file", "a link"])
def test_the_demo_replaces_nothing_that_it_did_not_make(tmp_path, monkeypatch, command_line, holds):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").touch()
    if holds == "a link":
        (mine / MARK).touch()
        (tmp_path / "demo").symlink_to(mine)
    else:
        mine.rename(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    code, _, error = command_line("demo")
    assert code == 2
    assert "pv4fad demo FOLDER" in error
    assert (tmp_path / "demo" / "precious").exists()
