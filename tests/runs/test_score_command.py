"""`pv4fad score`, `match refresh`, `keys rotate` and `verify`, as a user meets them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.runs.small_federation import PASSPHRASE, small_tables

from pv4fad.cli.main import main
from pv4fad.data.challenge import write_partition, write_scenarios
from pv4fad.parties.sealing import insecure_fast_scrypt_for_tests

FEW_LAYERS = ("--layers", "2", "--workers", "0")
DETAILS = [
    "MessageId", "Score", "Label", "Confidence", "GreenVotes", "OrderingVotes", "BeneficiaryVotes",
    "Reasons", "RedLabels",
]  # fmt: skip


def trained_folder(root: Path, mode: str, *names: str) -> tuple[Path, Path]:
    """Data with a train and a test split, and a run of these banks on it without noise."""
    tables, data, run = small_tables(), root / "data", root / "run"
    banks = {bank: tables.accounts[bank] for bank in names}
    scenario = data / "scenario01"
    write_partition(scenario / "train", tables.train.transactions, banks)
    write_partition(scenario / "test", tables.test.transactions, banks)
    write_scenarios(data, ["scenario01"])
    form = scenario / "test" / "swift" / "predictions_format.csv"
    pl.read_csv(form).sample(fraction=1, shuffle=True, seed=5).write_csv(form)
    arguments = (
        f"--epsilon none --mode {mode} --structure random --trees 4 --height 3 --workers 0 "
        "--seed 33"  # trees of this seed give votes on both sides
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
        # The cost is kept in the store: commands that only open it are fast, too.
        patch.setattr("pv4fad.parties.disk_store.ScryptCost", insecure_fast_scrypt_for_tests)
        patch.setattr(
            sys, "argv", ["pv4fad", "train", str(data), "--out", str(run), *arguments.split()]
        )
        main()
    return data, run


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    return trained_folder(tmp_path_factory.mktemp("sealed"), "sealed", "bank01", "bank02")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    return trained_folder(tmp_path_factory.mktemp("released"), "released", "bank01")


def killed(arguments: list[str], after: str) -> None:
    """Start a command, and kill it when it has told that a phase is over."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pv4fad", *map(str, arguments)],
        env=os.environ | {"PV4FAD_PASSPHRASE": PASSPHRASE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(line.startswith(after) for line in lines)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def has_match(summary: dict) -> bool:
    """Whether tables were matched, which takes a hundred megabytes; keys sent again take few."""
    return any(one["phase"] == "match" and one["bytes"] > 10**7 for one in summary["phases"])


def test_killed_twice_a_sealed_run_scores_and_equals_the_trusted_third_party(
    sealed, tmp_path, pv4fad
):
    data, run = sealed
    out = tmp_path / "predictions.csv"
    command = ["score", run, data, "--out", out, "--details", "--batch", "60", *FEW_LAYERS]
    killed(command, after="prepare")
    killed(command, after="match")
    assert not out.exists()
    code, text, _ = pv4fad(*command, "--json")
    assert code == 0
    summary = json.loads(text)
    assert "sealed" in summary["red_labels"]
    assert not has_match(summary)

    table = pl.read_csv(out)
    assert table.columns == DETAILS
    form = pl.read_csv(data / "scenario01" / "test" / "swift" / "predictions_format.csv")
    assert table["MessageId"].to_list() == form["MessageId"].to_list()
    assert table.height == summary["transactions"] > 100
    assert table["Score"].is_between(0, 1).all()
    votes = table.select(pl.sum_horizontal("GreenVotes", "OrderingVotes", "BeneficiaryVotes"))
    assert (votes.to_series() / 4 == table["Score"]).all()
    assert all(table[f"{side}Votes"].sum() for side in ("Ordering", "Beneficiary"))
    assert table["RedLabels"].unique().to_list() == ["sealed"]
    assert out.stat().st_mode & 0o077 == 0

    code, text, _ = pv4fad("verify", run, data, "--predictions", out)
    assert code == 0
    assert "100 % equal" in text
    for kind in ("scores", "green votes", "ordering votes", "beneficiary votes"):
        assert kind in text


def test_one_wrong_vote_fails_the_verification(sealed, released, tmp_path, pv4fad):
    data, run = released
    scored = pl.read_csv(data / "scenario01" / "test" / "swift" / "predictions_format.csv")
    wrong = tmp_path / "wrong.csv"
    scored.with_columns(Score=pl.lit(2.0)).write_csv(wrong)
    code, text, error = pv4fad("verify", run, data, "--predictions", wrong, "--json")
    assert code == 1
    assert "differs from the trusted third party" in error
    (scores,) = (one for one in json.loads(text)["exact"] if one["what"] == "scores")
    assert (scores["equal"], scores["total"]) == (0, scored.height)
    scored.head(5).write_csv(wrong)
    code, _, error = pv4fad("verify", run, data, "--predictions", wrong)
    assert code == 2
    assert "not one prediction for each transaction" in error


def test_a_limited_bank_changed_records_and_new_keys(released, tmp_path, pv4fad):
    data, run = released

    # A bank answers no more than it wants to; what was matched meanwhile is not matched again.
    first = tmp_path / "first.csv"
    command = ["score", run, data, "--out", first, *FEW_LAYERS]
    code, _, error = pv4fad(*command, "--bank-layers-per-day", "1")
    assert code == 2
    assert "bank01 answers at most 1 layers per table and day" in error
    assert "the same command carries on" in error
    assert not first.exists()
    code, text, _ = pv4fad(*command, "--json")
    assert code == 0
    assert not has_match(json.loads(text))
    assert pl.read_csv(first).columns == DETAILS[:2]
    code, text, _ = pv4fad("verify", run, data, "--predictions", first)
    assert code == 0
    assert "100 % equal" in text

    # A bank changes flags: nothing but a new match of everything shows it.
    file = data / "scenario01" / "test" / "bank01" / "bank_dataset.csv"
    accounts = pl.read_csv(file, infer_schema=False)
    every_second = pl.int_range(pl.len()) % 2 == 0
    flag = pl.when(pl.col("Flags") == "00").then(pl.lit("07")).otherwise(pl.lit("00"))
    changed = accounts.with_columns(Flags=pl.when(every_second).then(flag).otherwise("Flags"))
    changed.write_csv(file)
    second = tmp_path / "second.csv"
    for arguments in (
        ("score", run, data, "--out", second),
        ("keys", "rotate", run, data),
    ):
        code, _, error = pv4fad(*arguments)
        assert code == 2
        assert "the account file of bank01 is not the one" in error
        assert "match refresh" in error
    killed(["match", "refresh", run, data, "--workers", "0"], after="prepare")
    code, text, _ = pv4fad("match", "refresh", run, data, "--workers", "0")
    assert code == 0
    assert "under new keys" in text
    assert pv4fad("score", run, data, "--out", second, *FEW_LAYERS)[0] == 0
    code, text, _ = pv4fad("verify", run, data, "--predictions", second)
    assert code == 0
    assert "100 % equal" in text
    before, after = pl.read_csv(first), pl.read_csv(second)
    n_changed = (before["Score"] != after["Score"]).sum()
    assert 0 < n_changed < before.height

    # With new keys, and nothing else new, the predictions stay the same.
    code, text, _ = pv4fad("keys", "rotate", run, data, "--workers", "0", "--json")
    assert code == 0
    assert [one["phase"] for one in json.loads(text)["phases"]] == ["prepare", "match"]
    third = tmp_path / "third.csv"
    assert pv4fad("score", run, data, "--out", third, *FEW_LAYERS)[0] == 0
    assert third.read_text() == second.read_text()


@pytest.fixture
def copied(released, tmp_path):
    """Data and run that a test may change."""
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(released[0], data)
    shutil.copytree(released[1], run)
    return data, run, tmp_path / "predictions.csv"


def refused(pv4fad, copied, *options) -> str:
    data, run, out = copied
    code, _, error = pv4fad("score", run, data, "--out", out, *options)
    assert code == 2
    assert not out.exists()
    return " ".join(error.split())


def test_an_unfinished_run_is_not_scored_with(copied, pv4fad):
    document = copied[1] / "run.json"
    document.write_text(document.read_text().replace('"finished"', '"unfinished"', 1))
    assert "not finished: carry on with pv4fad train" in refused(pv4fad, copied)


def test_other_training_data_is_refused(copied, pv4fad):
    file = copied[0] / "scenario01" / "train" / "swift" / "swift_transaction_train_dataset.csv"
    file.write_text(file.read_text().rstrip("\n").rsplit("\n", 1)[0] + "\n")
    assert "does not hold the transactions that the run was trained on" in refused(pv4fad, copied)


def test_other_banks_are_refused(copied, pv4fad):
    file = copied[0] / "scenario01" / "test" / "partitions.json"
    clients = json.loads(file.read_text())
    clients["bank02"] = clients["bank01"]
    file.write_text(json.dumps(clients))
    assert "the run in" in refused(pv4fad, copied)


def test_without_a_test_split_there_is_nothing_to_score(copied, pv4fad):
    shutil.rmtree(copied[0] / "scenario01" / "test")
    assert "has no test split" in refused(pv4fad, copied)


def test_one_split_is_not_enough(copied, pv4fad):
    data, run, out = copied
    split = (data / "scenario01" / "test", run, out)
    assert "name the folder that holds train and test" in refused(pv4fad, split)


def test_a_form_that_does_not_fit_is_refused(copied, pv4fad):
    form = copied[0] / "scenario01" / "test" / "swift" / "predictions_format.csv"
    ids = pl.read_csv(form)
    for wrong, problem in (
        (ids.head(-1), "is missing"),
        (pl.concat([ids, ids.head(1)]), "is listed twice"),
        (ids.with_columns(MessageId=pl.lit("M") + pl.col("MessageId")), "not among the"),
        (ids.rename({"MessageId": "Id"}), "column MessageId"),
    ):
        wrong.write_csv(form)
        assert problem in refused(pv4fad, copied)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--batch", "0"), "batch 0"),
        (("--layers", "0"), "layers 0"),
        (("--workers", "-1"), "workers"),
        (("--scenario", "other"), "has no scenario 'other'"),
    ],
)
def test_a_bad_option_is_named(copied, pv4fad, options, problem):
    assert problem in refused(pv4fad, copied, *options)


def test_predictions_are_not_overwritten(copied, pv4fad):
    data, run, out = copied
    out.write_text("precious")
    code, _, error = pv4fad("score", run, data, "--out", out)
    assert code == 2
    assert "is there already" in error
    assert out.read_text() == "precious"
    code, _, error = pv4fad("score", run, data, "--out", out.parent / "nowhere" / "p.csv")
    assert code == 2
    assert "there is no folder" in error
