"""`pv4fad attack` on runs that were really trained and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.played import command, write_telling_data
from tests.kit.small_federation import PASSPHRASE

from pv4fad.attack.findings import Attack

FEW = ("--releases", "20000", "--worlds", "0", "--workers", "0")


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    return command_line


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_telling_data(tmp_path_factory.mktemp("attack") / "data")


def run_with(data: Path, name: str, *options: object, predictions: bool = True) -> Path:
    run = data.parent / name
    command("train", data, "--out", run, "--seed", 33, "--workers", 0, *options)
    if predictions:
        out = run / "payment-network" / "predictions.csv"
        command("score", run, data, "--out", out, "--workers", 0)
    return run


@pytest.fixture(scope="module")
def noisy(data) -> Path:
    return run_with(data, "noisy", "--epsilon", 1, "--alert-share", 0.1)


@pytest.fixture(scope="module")
def exact(data) -> Path:
    return run_with(data, "exact", "--epsilon", "none", "--alert-share", 0.1)


@pytest.fixture(scope="module")
def votes(data) -> Path:
    options = ("--model", "paper", "--scoring", "votes", "--trees", 3, "--height", 3)
    return run_with(data, "votes", "--epsilon", "none", *options)


def found(text: str) -> dict[tuple[str, str], dict]:
    return {(one["target"], one["measure"]): one for one in json.loads(text)["findings"]}


def of(findings, target: str, measure: str):
    (one,) = [v for (t, m), v in findings.items() if target in t and measure in m]
    return one


def test_answers_tell_what_was_asked_and_nothing_wrong(noisy, data, pv4fad):
    code, text, _ = pv4fad("attack", noisy, data, *FEW, "--json")
    assert code == 0
    findings = found(text)
    recognised = of(findings, "from the answers", "share")
    precision = of(findings, "from the answers", "precision")
    assert recognised["found"] < 1
    # By chance, noise hides that a question is worth asking.
    assert precision["found"] == 1 or not precision["n"]
    record = json.loads((noisy / "payment-network" / "predictions.record.json").read_text())
    assert precision["n"] == record["accounts_positive"]
    assert 0.8 < of(findings, "knowing all others", "ε")["found"] < 1.1
    guesses = of(findings, "whether", "right guesses")
    assert "0.731" in guesses["note"]
    assert Attack.read(noisy / "payment-network" / "attack.json", json.loads(text)["run_id"])


def test_without_noise_who_knows_all_others_knows_the_last_one(exact, data, pv4fad):
    code, text, _ = pv4fad("attack", exact, data, *FEW, "--json")
    assert code == 0
    findings = found(text)
    assert of(findings, "whether", "right guesses")["found"] == 1
    assert 0 < of(findings, "from the answers", "share")["found"] < 1
    assert of(findings, "from the answers", "precision")["found"] == 1
    assert not any("ε" in measure for _, measure in findings)


def test_several_runs_tell_more_than_one(noisy, exact, data, pv4fad):
    """Another on the same records, without noise: what the first one hid is known."""
    alone = of(found(pv4fad("attack", noisy, data, *FEW, "--json")[1]), "whether", "right guesses")
    code, text, _ = pv4fad("attack", noisy, data, "--also", exact, *FEW, "--json")
    assert code == 0
    together = of(found(text), "whether", "right guesses")
    assert together["found"] == 1 >= alone["found"]  # by chance, noise may hide nothing


def test_vote_totals_give_the_accounts_away(votes, data, pv4fad):
    code, text, _ = pv4fad("attack", votes, data, *FEW, "--json")
    assert code == 0
    findings = found(text)
    recognised = of(findings, "vote totals", "share")
    precision = of(findings, "vote totals", "precision")
    assert recognised["found"] > 0.2
    assert precision["found"] > 3 * precision["guess"]


def test_a_folder_without_a_run_is_refused(data, pv4fad, tmp_path):
    code, _, error = pv4fad("attack", tmp_path, data, *FEW)
    assert code != 0
    assert str(tmp_path) in "".join(error.split())


def test_every_attack_is_printed_in_words(noisy, data, pv4fad):
    code, text, error = pv4fad("attack", noisy, data, *FEW)
    assert code == 0
    said = " ".join(text.split())
    assert "payment network: which accounts are not ordinary, from the counts" in said
    assert "{" not in said
    assert "claim: at most 1, holds" in said
    assert "audit of ε" in error
