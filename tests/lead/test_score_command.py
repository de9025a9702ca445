"""`pv4fad score`, `refresh` and `verify`, as a user meets them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from tests.kit.played import command, write_telling_data
from tests.kit.small_federation import PASSPHRASE

from pv4fad.cli.progress import VOTES_TELL
from pv4fad.errors import ParameterError
from pv4fad.lead.score import checked_share
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.features import FEATURE_MEANINGS
from pv4fad.payments.features.phrases import AT_ONE, AT_ZERO, OTHER_MEANINGS
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.score.metering import Metered
from pv4fad.run.meter import PhaseCost
from pv4fad.run.scoring_record import ScoringRecord, read_record, record_path
from pv4fad.store.disk import DiskStore
from pv4fad.store.records import stored
from pv4fad.store.sealing import Passphrase

COLUMNS = ["MessageId", "Score", "Alert", "Level", "LocalScore", "Reasons"]
OF_VOTES = [
    "MessageId", "Score", "Label", "Confidence", "GreenVotes", "OrderingVotes", "BeneficiaryVotes",
    "Reasons",
]  # fmt: skip
ALERT_SHARE = 0.1
BANKS = ("bank01", "bank02")
IN_PROCESS = ("--workers", "0")


@dataclass(frozen=True)
class Trained:
    """Data with a train and a test split, and a run on it without noise."""

    data: Path
    run: Path

    @property
    def form(self) -> Path:
        return self.data / "scenario01" / "test" / "swift" / "predictions_format.csv"

    def copied_to(self, root: Path) -> Trained:
        """One that a test may change."""
        return Trained(
            shutil.copytree(self.data, root / "data"), shutil.copytree(self.run, root / "run")
        )


def trained_folder(root: Path, *options: object) -> Trained:
    trained = Trained(write_telling_data(root / "data"), root / "run")
    pl.read_csv(trained.form).sample(fraction=1, shuffle=True, seed=5).write_csv(trained.form)
    fixed = ("--epsilon", "none", *IN_PROCESS)
    command("train", trained.data, "--out", trained.run, *fixed, *options)
    return trained


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> Trained:
    root = tmp_path_factory.mktemp("evidence")
    return trained_folder(root, "--alert-share", ALERT_SHARE, "--seed", "33")


@pytest.fixture(scope="module")
def scored(evidence, tmp_path_factory) -> tuple[Trained, Path]:
    """A copy of that run after its first scoring, and the predictions."""
    root = tmp_path_factory.mktemp("scored")
    trained, out = evidence.copied_to(root), root / "predictions.csv"
    command("score", trained.run, trained.data, "--out", out, *IN_PROCESS)
    return trained, out


def record_of(predictions: Path) -> ScoringRecord:
    record = read_record(predictions)
    assert record is not None
    return record


def killed(arguments: list, after: str) -> None:
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


def compared(pv4fad, trained: Trained, predictions: Path) -> dict[str, tuple[int, int]]:
    """What `verify` finds: of each kind how many are equal, and how many there are."""
    code, text, _ = pv4fad(
        "verify", trained.run, trained.data, "--predictions", predictions, "--json"
    )
    result = json.loads(text)
    found = {
        one["what"]: (one["equal"], one["total"]) for one in (*result["exact"], *result["noisy"])
    }
    assert (code == 0) == result["all_equal"] == all(a == b for a, b in found.values())
    return found


# Metered.


def test_metered_predictions_equal_the_trusted_third_partys_within_the_budget(tmp_path, pv4fad):
    metered = ("--alert-share", ALERT_SHARE, "--seed", "33", "--metered")
    trained, out = trained_folder(tmp_path, *metered), tmp_path / "predictions.csv"
    score = ("score", trained.run, trained.data, "--out", out, *IN_PROCESS)
    code, _, error = pv4fad(*score, "--bank-positives-per-day", 0)
    assert code != 0
    assert "budget of 0 positive answers a day is used up" in " ".join(error.split())
    code, _, error = pv4fad(*score)
    assert code != 0
    assert "until a person there acts (metered-release = 1" in " ".join(error.split())
    code, text, _ = pv4fad(*score, "--bank-metered-release", 1)
    assert code == 0, text
    record = record_of(out)
    assert record.learned.holder_alerts > 0
    with DiskStore.open(trained.run / "aggregator", Passphrase(PASSPHRASE)) as store:
        counted = {bank: stored(store, "", Metered, bank).positives for bank in BANKS}
    assert record.positive_answers == counted
    assert sum(counted.values()) > 0
    found = compared(pv4fad, trained, out)
    assert all(equal == n > 0 for equal, n in found.values())
    assert {"bits", "alerts", "levels", "scores", "counts"} <= set(found)


# The default model.


def test_predictions_are_alerts_and_reasons_in_own_terms(scored):
    trained, out = scored
    table = pl.read_csv(out)
    assert table.columns == COLUMNS
    form = pl.read_csv(trained.form)
    assert table["MessageId"].to_list() == form["MessageId"].to_list()
    assert out.stat().st_mode & 0o077 == 0
    assert table["Score"].is_between(0, 1).all()
    alerts, others = table.filter(pl.col("Alert") == 1), table.filter(pl.col("Alert") == 0)
    assert alerts.height + others.height == table.height > 100
    assert alerts["Level"].is_between(1, 3).all()
    assert others["Level"].unique().to_list() == [0]
    assert alerts["Score"].min() > others["Score"].max()
    assert others["Score"].to_list() == others["LocalScore"].to_list()
    # Of an alert it says whether a bank's record decided, and never which class it has.
    assert others["Reasons"].is_null().all()
    assert alerts["Reasons"].is_not_null().all()
    by_bank = alerts["Reasons"].str.contains("the bank's record", literal=True)
    assert 0 < by_bank.sum() < alerts.height
    parts = [part for reasons in alerts["Reasons"] for part in reasons.split("; ") if part]
    own = {part for part in parts if part != "the bank's record"}
    meanings = FEATURE_MEANINGS | OTHER_MEANINGS
    of_features = {*meanings.values(), *AT_ZERO.values(), *AT_ONE.values()}
    assert own
    assert {part.partition(": ")[0] for part in own} <= of_features | {
        "an account with a confirmed anomaly"
    }


def test_the_record_says_what_was_learned_and_nothing_has_votes(scored):
    trained, out = scored
    record, table = record_of(out), pl.read_csv(out)
    learned = record.learned
    assert (record.scoring, record.alert_share) == ("decisions", ALERT_SHARE)
    assert learned.rows == table.height
    assert learned.alerts == table["Alert"].sum()
    assert learned.holder_alerts == table["Reasons"].str.contains("the bank's record").sum() > 0
    assert 0 < learned.rows_asked < learned.rows
    assert 0 < learned.records_asked < learned.records
    assert record.records_known == learned.records_asked
    assert 0 < record.records_positive < record.records_known
    for file in (out, record_path(out), trained.run / "run.json"):
        assert "vote" not in file.read_text().lower()
    assert record_path(out).stat().st_mode & 0o077 == 0


def test_killed_twice_and_refused_once_it_ends_with_the_same_predictions(
    evidence, scored, tmp_path, pv4fad
):
    out = tmp_path / "predictions.csv"
    score = ["score", evidence.run, evidence.data, "--out", out, *IN_PROCESS]
    killed(score, after="prepare")
    killed(score, after="match")
    # A bank answers no more than it wants to.
    code, _, error = pv4fad(*score, "--bank-layers-per-day", "1")
    assert code == 2
    assert "bank01 answers at most 1 layers per table and day" in error
    assert "repeat the command to carry on" in error
    assert not out.exists()
    code, text, error = pv4fad(*score, "--json")
    assert code == 0
    summary = json.loads(text)
    assert not has_match(summary)
    assert out.read_text() == scored[1].read_text()
    undisturbed = record_of(scored[1])
    assert summary["learned"] == undisturbed.learned.model_dump()
    assert summary["records_known"] == undisturbed.records_known
    assert summary["records_positive"] == undisturbed.records_positive
    assert "vote" not in (text + error).lower()


def test_every_bit_and_alert_equals_the_trusted_third_partys(scored, pv4fad):
    trained, out = scored
    found = compared(pv4fad, trained, out)
    n_payments, record = pl.read_csv(out).height, record_of(out)
    for what in ("alerts", "levels", "scores"):
        assert found[what] == (n_payments, n_payments)
    n_equal, n_bits = found["bits"]
    assert n_equal == n_bits >= record.learned.records_asked > 0


def test_one_wrong_alert_and_one_wrong_score_fail_the_verification(scored, tmp_path, pv4fad):
    trained, out = scored
    wrong, table = tmp_path / "wrong.csv", pl.read_csv(out)
    shutil.copy(record_path(out), record_path(wrong))
    first, second = (pl.int_range(pl.len()) == row for row in (0, 1))
    table.with_columns(
        Alert=pl.when(first).then(1 - pl.col("Alert")).otherwise("Alert"),
        Score=pl.when(second).then(pl.col("Score") + 0.001).otherwise("Score"),
    ).write_csv(wrong)
    found = compared(pv4fad, trained, wrong)
    assert {what: n - equal for what, (equal, n) in found.items() if equal < n} == {
        "alerts": 1, "scores": 1,
    }  # fmt: skip


def test_predictions_that_cannot_be_compared_are_named(scored, tmp_path, pv4fad):
    trained, out = scored
    other, table = tmp_path / "other.csv", pl.read_csv(out)

    def problem() -> str:
        code, _, error = pv4fad("verify", trained.run, trained.data, "--predictions", other)
        assert code == 2
        return " ".join(error.split())

    table.write_csv(other)
    assert "the record file is missing" in problem()
    record = record_path(out).read_text()
    record_path(other).write_text(record.replace(record_of(out).run_id, "0123456789abcdef"))
    assert "made by the run 0123456789abcdef" in problem()
    record_path(other).write_text(record)
    table.head(5).write_csv(other)
    assert "not one prediction for each row" in problem()
    table.drop("Alert").write_csv(other)
    assert "has no column Alert" in problem()


def test_a_smaller_alert_share_gives_no_more_alerts_and_a_larger_one_is_refused(
    scored, tmp_path, pv4fad
):
    trained, out = scored
    lower = tmp_path / "lower.csv"
    score = ["score", trained.run, trained.data, "--out", lower, *IN_PROCESS]
    code, _, error = pv4fad(*score, "--alert-share", "0.11")
    assert code == 2
    assert "alert_share 0.11: the run was trained for 0.1" in error
    code, text, _ = pv4fad(*score, "--alert-share", "0.02", "--json")
    assert code == 0
    before, after, learned = pl.read_csv(out), pl.read_csv(lower), json.loads(text)["learned"]
    both = before.join(after, on="MessageId", suffix="Lower")
    assert (both["AlertLower"] <= both["Alert"]).all()
    assert 0 < after["Alert"].sum() < before["Alert"].sum()
    assert learned["alerts"] == after["Alert"].sum()
    # What was known before is not asked for again, and all predictions can be verified still.
    assert json.loads(text)["records_known"] == record_of(out).records_known
    for file in (lower, out):
        assert all(equal == n for equal, n in compared(pv4fad, trained, file).values())


def test_changed_records_need_a_refresh_after_which_everything_is_asked_again(
    scored, tmp_path, pv4fad
):
    trained = scored[0].copied_to(tmp_path)
    run, data = trained.run, trained.data
    file = data / "scenario01" / "test" / "bank02" / "bank_dataset.csv"
    accounts = pl.read_csv(file, infer_schema=False)
    flag = pl.when(pl.col("Flags") == "00").then(pl.lit("07")).otherwise(pl.lit("00"))
    accounts.with_columns(Flags=flag).write_csv(file)
    second = tmp_path / "second.csv"
    code, _, error = pv4fad("score", run, data, "--out", second)
    assert code == 2
    assert "the records of bank02 are not those" in error
    assert "pv4fad refresh" in error
    killed(["refresh", run, data, *IN_PROCESS], after="prepare")
    code, text, _ = pv4fad("refresh", run, data, *IN_PROCESS, "--json")
    assert code == 0
    assert [one["phase"] for one in json.loads(text)["phases"]] == ["prepare", "match"]
    assert pv4fad("score", run, data, "--out", second, *IN_PROCESS)[0] == 0
    record = record_of(second)
    assert record.records_known == record.learned.records_asked > 0
    assert all(equal == n for equal, n in compared(pv4fad, trained, second).values())
    before, after = pl.read_csv(scored[1]), pl.read_csv(second)
    assert (before["Score"] != after["Score"]).sum() > 0
    assert before["LocalScore"].to_list() == after["LocalScore"].to_list()


def test_a_refresh_says_what_it_has_done(evidence, pv4fad, monkeypatch):
    costs = (PhaseCost(phase="match", seconds=1.5, messages=3, bytes=10**7),)
    monkeypatch.setattr("pv4fad.cli.score.refresh", lambda *_: costs)
    code, text, _ = pv4fad("refresh", evidence.run, evidence.data)
    assert code == 0
    assert "under new keys" in " ".join(text.split())
    assert re.search(r"match +│ 1.5 +│ 3 +│ 10.0 MB", text)


# The paper's model.

# A tree that asks about some accounts; trees that vote on both sides.
PAPER = ("--model", "paper", "--trees", 3, "--height", 3, "--bound", 4)
DECISIONS = (*PAPER, "--seed", 11)
VOTES = (*PAPER, "--scoring", "votes", "--seed", 13)


def test_decisions_of_the_papers_model_equal_the_trusted_third_partys(tmp_path, pv4fad):
    trained, out = trained_folder(tmp_path, *DECISIONS), tmp_path / "predictions.csv"
    code, text, error = pv4fad("score", trained.run, trained.data, "--out", out, *IN_PROCESS)
    assert code == 0
    assert "the payment network now knows a bit about" in " ".join(text.split()).lower()
    table, learned = pl.read_csv(out), record_of(out).learned
    assert table.columns == COLUMNS
    assert learned.records_asked > 0
    assert learned.holder_alerts > 0
    assert "vote" not in (text + error + out.read_text()).lower()
    assert table.filter(pl.col("Alert") == 0)["Reasons"].is_null().all()
    found = compared(pv4fad, trained, out)
    assert all(equal == n > 0 for equal, n in found.values())
    assert {"bits", "alerts", "levels", "scores", "red leaves"} <= set(found)


def test_votes_of_the_papers_model_equal_the_trusted_third_partys_and_warn(tmp_path, pv4fad):
    trained, out = trained_folder(tmp_path, *VOTES), tmp_path / "predictions.csv"
    few = ("--batch", "150", "--layers", "2", *IN_PROCESS)
    code, text, _ = pv4fad("score", trained.run, trained.data, "--out", out, *few)
    assert code == 0
    said = " ".join(text.split())
    assert " ".join(SCHEMA.words(VOTES_TELL).split()) in said
    assert "Vote totals tell kinds of accounts apart" in (trained.run / "run.json").read_text()
    table, record = pl.read_csv(out), record_of(out)
    assert table.columns == OF_VOTES
    assert (record.scoring, record.learned, record.alert_share) == ("votes", None, None)
    total = table.select(pl.sum_horizontal("^.*Votes$")).to_series()
    assert (total / 3 == table["Score"]).all()
    assert all(table[f"{side}Votes"].sum() for side in ("Ordering", "Beneficiary"))
    found = compared(pv4fad, trained, out)
    assert all(equal == n > 0 for equal, n in found.values())
    assert {"scores", "GreenVotes", "OrderingVotes", "BeneficiaryVotes"} <= set(found)


def test_the_papers_model_has_no_alert_share():
    paper = TrainingSettings(epsilon="1", model="paper")
    assert checked_share(None, paper) is None
    with pytest.raises(ParameterError, match="alert_share: the paper's model"):
        checked_share(0.001, paper)


@pytest.mark.parametrize("share", [0.0, -0.1, 0.0021])
def test_an_alert_share_is_above_0_and_at_most_that_of_the_run(share):
    settings = TrainingSettings(epsilon="1")
    assert checked_share(None, settings) == checked_share(0.002, settings) == 0.002
    assert checked_share(0.001, settings) == 0.001
    with pytest.raises(ParameterError, match=f"alert_share {share}: the run was trained for 0.002"):
        checked_share(share, settings)


# Mistakes.


@pytest.fixture
def copied(evidence, tmp_path):
    """Data that a test may change, the run, which no refused command changes, and predictions."""
    data = shutil.copytree(evidence.data, tmp_path / "data")
    return data, evidence.run, tmp_path / "predictions.csv"


def refused(pv4fad, copied, *options) -> str:
    data, run, out = copied
    code, _, error = pv4fad("score", run, data, "--out", out, *options)
    assert code == 2
    assert not out.exists()
    return " ".join(error.split())


def test_an_unfinished_run_is_not_scored_with(copied, pv4fad, tmp_path):
    data, run, out = copied
    document = (run / "run.json").read_text().replace('"finished"', '"unfinished"', 1)
    (tmp_path / "run.json").write_text(document)
    error = refused(pv4fad, (data, tmp_path, out))
    assert "not finished: carry on with pv4fad train" in error


def test_other_training_data_is_refused(copied, pv4fad):
    file = copied[0] / "scenario01" / "train" / "swift" / "swift_transaction_train_dataset.csv"
    file.write_text(file.read_text().rstrip("\n").rsplit("\n", 1)[0] + "\n")
    assert "does not hold the rows that the run was trained on" in refused(pv4fad, copied)


def test_other_banks_are_refused(copied, pv4fad):
    file = copied[0] / "scenario01" / "test" / "partitions.json"
    clients = json.loads(file.read_text())
    clients["bank03"] = clients["bank01"]
    file.write_text(json.dumps(clients))
    assert "the run has bank01, bank02" in refused(pv4fad, copied)


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
        (("--alert-share", "0"), "alert_share 0.0"),
    ],
)
def test_a_bad_option_is_named(copied, pv4fad, options, problem):
    assert problem in refused(pv4fad, copied, *options)


def test_predictions_are_not_overwritten(copied, pv4fad):
    data, run, out = copied
    out.write_text("precious")
    code, _, error = pv4fad("score", run, data, "--out", out)
    assert code == 2
    assert "already exists" in error
    assert out.read_text() == "precious"
    code, _, error = pv4fad("score", run, data, "--out", out.parent / "nowhere" / "p.csv")
    assert code == 2
    assert "there is no folder" in error
