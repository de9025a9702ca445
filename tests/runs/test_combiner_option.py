"""`--combiner` on train and score, as a user meets it."""

from __future__ import annotations

import errno
import json

import polars as pl
import pytest
from tests.runs.small_federation import small_tables

from pv4fad.data.challenge import write_partition, write_scenarios
from pv4fad.detection.stacked import OUTSIDE_THE_CLAIM
from pv4fad.parties.sealing import insecure_fast_scrypt_for_tests

FEW_LAYERS = ("--layers", "1", "--workers", "0")


@pytest.fixture
def run(tmp_path, pv4fad, monkeypatch):
    """One bank, a released model without noise, and the default combiner."""
    monkeypatch.setattr("pv4fad.parties.disk_store.ScryptCost", insecure_fast_scrypt_for_tests)
    tables, data = small_tables(), tmp_path / "data"
    banks = {"bank01": tables.accounts["bank01"]}
    for split, messages in (("train", tables.train), ("test", tables.test)):
        write_partition(data / "scenario01" / split, messages.transactions, banks)
    write_scenarios(data, ["scenario01"])
    options = ("--epsilon", "none", "--mode", "released", "--trees", "4", "--seed", "3")
    code, _, errors = pv4fad("train", data, "--out", tmp_path / "run", "--workers", "0", *options)
    assert code == 0, errors
    return tmp_path / "run", data


def test_every_combiner_scores_and_equals_the_trusted_third_party(run, tmp_path, pv4fad):
    folder, data = run
    scores = {}
    for combiner in (None, "stacked", "votes"):
        out = tmp_path / f"{combiner}.csv"
        given = () if combiner is None else ("--combiner", combiner)
        code, text, errors = pv4fad(
            "score", folder, data, "--out", out, "--json", *given, *FEW_LAYERS
        )
        assert code == 0, errors
        summary = json.loads(text)
        assert summary["combiner"] == (combiner or "calibrated")
        says = [summary["outside_the_claim"], errors, out.with_suffix(".record.json").read_text()]
        says.append((folder / "run.json").read_text())
        told = [OUTSIDE_THE_CLAIM[:50] in text.replace("\n", " ") for text in says]
        # Once the rows were scored, the run says so for good.
        assert told == [combiner == "stacked"] * 3 + [combiner is not None]
        code, text, _ = pv4fad("verify", folder, data, "--predictions", out)
        assert code == 0, text
        assert "local model" in text
        scores[combiner] = pl.read_csv(out)["Score"]
    assert not scores[None].equals(scores["votes"])
    assert not scores[None].equals(scores["stacked"])


def test_labelled_rows_are_scored_once_even_if_the_disk_is_full(run, tmp_path, pv4fad, monkeypatch):
    folder, data = run
    out = tmp_path / "first.csv"
    words = ("score", folder, data, "--combiner", "stacked", "--json", *FEW_LAYERS, "--out")

    def full(path, _):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("pv4fad.runs.scoring.write_predictions", full)
        code, _, errors = pv4fad(*words, out)
    assert code == 2
    assert "the same command carries on" in errors
    assert "first.csv: No space left on device; make room" in errors
    assert OUTSIDE_THE_CLAIM[:50] in (folder / "run.json").read_text()
    code, text, errors = pv4fad(*words, out)
    assert code == 0, errors
    assert json.loads(text)["layers"] == 0  # everything had been asked
    assert pv4fad("verify", folder, data, "--predictions", out)[0] == 0
    asked = json.loads(pv4fad(*words, tmp_path / "second.csv")[1])["layers"]
    new = json.loads(pv4fad(*words[:3], *words[5:], tmp_path / "third.csv")[1])["layers"]
    assert asked == new  # about the new transactions only
    assert pl.read_csv(out).equals(pl.read_csv(tmp_path / "second.csv"))
    (tmp_path / "other.record.json").write_text("precious")
    code, _, errors = pv4fad(*words, tmp_path / "other.csv")
    assert (code, "other.record.json" in errors) == (2, True)


def test_what_cannot_be_combined_is_refused_before_anybody_is_asked(run, tmp_path, pv4fad):
    folder, data = run
    out = tmp_path / "predictions.csv"
    code, _, errors = pv4fad("score", folder, data, "--out", out, "--combiner", "mean")
    assert code == 2
    assert "calibrated, stacked, votes" in errors
    options = ("--epsilon", "1", "--height", "2", "--combiner", "calibrated")
    code, _, errors = pv4fad("train", data, "--out", tmp_path / "other", *options)
    assert code == 2
    assert "height 1" in errors
