import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pv4fad.bench.clear_run import ClearRun
from pv4fad.bench.utility import (
    Difficulty,
    Measured,
    Setting,
    StudyDocument,
    StudyFile,
    shuffled_flags,
    study_seed,
)
from pv4fad.cli.main import app
from pv4fad.data.generate import Settings, generate_tables
from pv4fad.detection import recipe
from pv4fad.errors import DataError
from pv4fad.runs.in_memory import train
from pv4fad.runs.scoring_rows import Batching
from pv4fad.runs.settings import TrainingSettings

SETTINGS = TrainingSettings(epsilon="none", trees=8, seed=5)


@pytest.fixture(scope="module")
def tables():
    return generate_tables(
        Settings(3000, 3, Difficulty.CHALLENGE, 8, anomaly_rate=0.05, accounts=1500)
    )


@pytest.fixture(scope="module")
def clear(tables):
    new = tables.test.transactions
    return ClearRun(tables.train.transactions, new, tables.accounts, SETTINGS, SETTINGS.seed)


def totals_of(clear, accounts):
    records = clear.records(accounts)
    return clear.votes(clear.red_labels(records, "none", 1), records)


def scores_of(clear, combiner, accounts):
    totals = totals_of(clear, accounts)
    return clear.scores(combiner, totals, epsilon="none", draws=1)


def test_scores_in_the_clear_are_those_of_a_private_run(tables, clear):
    new = tables.test.transactions
    with train(tables.train.transactions, tables.accounts, SETTINGS) as model:
        batching = Batching(layers=1)
        for combiner in ("stacked", "calibrated", "votes"):
            private = model.score(new, combiner=combiner, batching=batching)["Score"].to_numpy()
            found = scores_of(clear, combiner, clear.accounts)
            assert np.allclose(private, found, rtol=1e-9, atol=0), combiner


@pytest.mark.parametrize("combiner", ["stacked", "calibrated", "votes"])
def test_these_scores_depend_on_what_the_banks_know(clear, combiner):
    """Otherwise the test above would compare nothing that came from a bank."""
    totals = totals_of(clear, clear.accounts).of_new
    assert all(len(np.unique(side)) > 1 for side in totals.T)
    with_banks, without = (scores_of(clear, combiner, one) for one in (clear.accounts, None))
    assert np.abs(with_banks - without).max() > 0.1


def test_shuffled_flags_are_the_same_flags_of_other_accounts(tables):
    shuffled = shuffled_flags(tables.accounts, np.random.default_rng(1))
    counts = [
        pl.concat(frame["Flags"] for frame in one.values()).sort().to_list()
        for one in (tables.accounts, shuffled)
    ]
    assert counts[0] == counts[1]
    assert any(
        not frame["Flags"].equals(tables.accounts[bank]["Flags"])
        for bank, frame in shuffled.items()
    )


def test_a_finished_seed_is_kept_and_a_file_of_another_study_refused(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    rows = {name: Measured(0.5, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)) for name in ("alone", "joined")}
    StudyFile(path, 1000).add(Difficulty.HARD, 11, rows)
    again = StudyFile(path, 1000)
    assert again.finished(Difficulty.HARD) == {11: rows}
    assert again.finished(Difficulty.CHALLENGE) == {}
    with pytest.raises(DataError, match=r"another setting \(transactions\)"):
        StudyFile(path, 2000)
    monkeypatch.setattr(recipe, "VERSION", recipe.VERSION + 1)
    with pytest.raises(DataError, match=r"another setting \(recipe\)"):
        StudyFile(path, 1000)


def _damaged(spoil):
    measured = {"average_precision": 0.5, "precision": [0.1] * 3, "recall": [0.2] * 3}
    hard = {seed: {"alone": dict(measured), "joined": dict(measured)} for seed in ("11", "12")}
    spoil(hard)
    document = StudyDocument.empty(1000).model_dump(mode="json")
    return json.dumps(document | {"results": {"hard": hard}})


DAMAGE = {
    "a list": "[]",
    "no text": "\0",
    "deeply nested": "[" * 100_000,
    "of before recipes had versions": _damaged(lambda hard: None).replace('"recipe"', '"mark"'),
    "a seed that is no number": _damaged(lambda hard: hard.update(x=hard.pop("11"))),
    "no rows": _damaged(lambda hard: hard.update({"11": {}})),
    "other rows for one seed": _damaged(lambda hard: hard["11"].update(more=hard["11"]["alone"])),
    "without the bound": _damaged(lambda hard: [rows.pop("joined") for rows in hard.values()]),
    "text for a number": _damaged(lambda hard: hard["11"]["alone"].update(average_precision="x")),
    "no number": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=float("nan"))),
    "null": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=None)),
    "above 1": _damaged(lambda hard: hard["11"]["alone"].update(average_precision=1.5)),
    "a budget too few": _damaged(lambda hard: hard["11"]["alone"].update(precision=[0.1])),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_holds_no_study_is_refused_and_stays(damage, tmp_path):
    path = tmp_path / "study.json"
    path.write_text(DAMAGE[damage])
    with pytest.raises(DataError, match=f"{path}: is damaged, or holds no study"):
        StudyFile(path, 1000)
    assert path.read_text() == DAMAGE[damage]


def test_the_damage_is_what_is_wrong_with_those_files(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(_damaged(lambda hard: None))
    assert list(StudyFile(path, 1000).finished(Difficulty.HARD)) == [11, 12]


def test_a_test_period_without_anomalies_is_named_before_the_work():
    told = []
    with pytest.raises(DataError, match="hard, seed 11: none of the 2,6"):
        study_seed(Setting(20_000, Difficulty.HARD), 11, told.append)
    assert told == ["data"]


def test_the_command_prints_what_is_in_its_file(tmp_path):
    path = tmp_path / "study.json"
    for seed, shift in ((11, 0.0), (12, 0.02)):
        file = StudyFile(path, 1000)
        for number, difficulty in enumerate(Difficulty):
            values = {"alone": 0.4, "joined": 0.6, "calibrated, ε = 1": 0.55 + number / 100}
            rows = {
                name: Measured(value + shift, (0.1,) * 3, (0.2,) * 3)
                for name, value in values.items()
            }
            file.add(difficulty, seed, rows)
    arguments = ["bench", "utility", "--seeds", "2", "--transactions", "1000", "--json", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "| calibrated, ε = 1 | 0.560 (0.433 to 0.687) | +0.150 (+0.150 to +0.150) |" in (
        result.output
    )
    assert "| 0.80 |" in result.output  # hard closes four fifths of the gap
