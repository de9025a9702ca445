"""`pv4fad attack` on runs that were really trained and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.played import command, write_telling_data
from tests.kit.small_federation import PASSPHRASE

import pv4fad.protocol.count.bank as count_bank
from pv4fad.attack.findings import Attack
from pv4fad.privacy.noise import polya_share

FEW = ("--worlds", "0", "--workers", "0")
ASKED, SCORED, NEVER = (
    f"{{records}} that it {one}"
    for one in ("asked about", "scored and did not ask about", "never scored")
)
RECOGNISED, PRECISION = "share recognised", "precision"


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    return command_line


@pytest.fixture
def attacked(data, pv4fad):
    """What an attack on a run finds, by target and measure."""

    def attacked(run: Path, *options: object) -> dict[tuple[str, str], dict]:
        code, text, _ = pv4fad("attack", run, data, *FEW, *options, "--json")
        assert code == 0
        return {
            (one["attacker"], one["target"], one["measure"]): one
            for one in json.loads(text)["findings"]
        }

    return attacked


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_telling_data(tmp_path_factory.mktemp("attack") / "data")


def run_with(data: Path, name: str, *options: object, seed: int = 33) -> Path:
    run = data.parent / name
    command("train", data, "--out", run, "--seed", seed, "--workers", 0, *options)
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


@pytest.fixture(scope="module")
def decisions(data) -> Path:
    options = ("--model", "paper", "--scoring", "decisions", "--trees", 3, "--height", 3)
    return run_with(data, "decisions", "--epsilon", "none", *options, seed=32)


def of(findings, target: str, measure: str, attacker: str = "lead"):
    (one,) = [
        v for (a, t, m), v in findings.items() if a == attacker and target in t and measure in m
    ]
    return one


def test_bits_tell_what_was_asked_and_nothing_wrong(exact, attacked):
    findings = attacked(exact)
    record = json.loads((exact / "payment-network" / "predictions.record.json").read_text())
    for target in (f"which {ASKED} are not ordinary", f"the class of {ASKED}"):
        recognised, precision = (of(findings, target, one) for one in (RECOGNISED, PRECISION))
        # Of one that is not ordinary in another way than was asked, the bit is 0.
        assert precision["n"] == record["records_positive"] > 0
        assert precision["found"] == 1
        assert precision["guess"] < 1
        assert recognised["found"] * recognised["n"] == pytest.approx(precision["n"])
    for group in (SCORED, NEVER):
        for target in (f"the class of {group}", f"which {group} no {{holder}} has"):
            assert of(findings, target, RECOGNISED)["found"] < 1
            assert of(findings, target, PRECISION)["guess"] < 0.5


def test_without_noise_who_knows_all_others_knows_the_last_one(exact, attacked):
    findings = attacked(exact)
    assert of(findings, "whether", "right guesses")["found"] == 1
    assert not any("ε" in measure for _, _, measure in findings)


def test_noise_hides_the_last_one_and_the_audit_comes_close_to_epsilon(noisy, attacked):
    findings = attacked(noisy)
    assert 0.85 < of(findings, "knowing all others", "ε")["found"] <= 1
    guesses = of(findings, "whether", "right guesses")
    assert "0.731" in guesses["note"]
    document = json.loads((noisy / "run.json").read_text())
    assert Attack.read(noisy / "payment-network" / "attack.json", document["run_id"])


def test_several_runs_tell_more_than_one(noisy, exact, votes, attacked):
    """Another on the same records, without noise: what the first one hid is known."""
    together = attacked(noisy, "--also", exact)
    assert of(together, "whether", "right guesses")["found"] == 1
    odd = f"which {ASKED} are not ordinary"
    # A run without bits, with one that has some: what vote totals tell comes on top.
    alone, together = attacked(exact), attacked(votes, "--also", exact)
    assert of(together, odd, RECOGNISED)["n"] == of(alone, odd, RECOGNISED)["n"]
    assert of(alone, odd, RECOGNISED)["found"] < 1
    assert of(together, odd, RECOGNISED)["found"] == 1


def test_too_little_noise_ends_with_exit_code_1(noisy, data, pv4fad, monkeypatch):
    monkeypatch.setattr(
        count_bank, "polya_share", lambda epsilon, *rest: polya_share(2 * epsilon, *rest)
    )
    code, text, error = pv4fad("attack", noisy, data, *FEW)
    assert code == 1
    assert "DOES NOT HOLD" in text
    assert "more than the claim allows" in error


def test_vote_totals_give_the_accounts_away(votes, attacked):
    findings = attacked(votes)
    odd = "which {records} that it scored are not ordinary"
    assert of(findings, odd, RECOGNISED)["n"] > 2
    assert of(findings, odd, RECOGNISED)["found"] == 1
    # Few small trees tell some ordinary accounts from others, too.
    assert of(findings, odd, PRECISION)["found"] > 10 * of(findings, odd, PRECISION)["guess"]


def test_released_labels_and_bits_are_attacked(decisions, attacked):
    findings = attacked(decisions)
    odd = f"which {ASKED} are not ordinary"
    assert of(findings, odd, RECOGNISED)["n"] > 0
    assert of(findings, odd, RECOGNISED)["found"] == 1
    assert of(findings, odd, PRECISION)["found"] == 1
    never = of(findings, f"which {NEVER} are not ordinary", PRECISION)
    assert never["found"] > 2 * never["guess"]  # from labels alone


def test_stores_of_banks_and_aggregator_are_looked_at(noisy, votes, attacked):
    for run, n_least in ((noisy, 100), (votes, 1000)):
        found = of(attacked(run), "its store holds", "uniformity", "holders")
        assert found["n"] > n_least
        assert found["found"] <= found["allowed"]
    assert of(attacked(noisy), "its store holds", "uniformity", "aggregator")


def test_a_folder_without_a_run_is_refused(data, pv4fad, tmp_path):
    code, _, error = pv4fad("attack", tmp_path, data, *FEW)
    assert code != 0
    assert str(tmp_path) in "".join(error.split())


def test_every_attack_is_printed_in_words(noisy, data, pv4fad):
    code, text, error = pv4fad("attack", noisy, data, *FEW)
    assert code == 0
    said = " ".join(text.split())
    assert "payment network: which accounts are not ordinary, from the counts" in said
    assert "which accounts that it never scored no bank has" in said
    assert "{" not in said
    assert "claim: at most 1, holds" in said
    assert "audit of ε" in error
