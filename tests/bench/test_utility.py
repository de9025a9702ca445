import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pv4fad.bench.clear_run import ClearRun
from pv4fad.bench.utility import Difficulty, Measured, StudyFile, shuffled_flags
from pv4fad.cli.main import app
from pv4fad.data.generate import Settings, generate_tables
from pv4fad.errors import DataError
from pv4fad.runs.in_memory import train
from pv4fad.runs.scoring_rows import Batching
from pv4fad.runs.settings import TrainingSettings

SETTINGS = TrainingSettings(epsilon="none", trees=8, seed=5)


@pytest.fixture(scope="module")
def tables():
    return generate_tables(
        Settings(2000, 3, Difficulty.CHALLENGE, 7, anomaly_rate=0.05, accounts=200)
    )


@pytest.fixture(scope="module")
def clear(tables):
    new = tables.test.transactions
    return ClearRun(tables.train.transactions, new, tables.accounts, SETTINGS, SETTINGS.seed)


def scores_of(clear, combiner):
    records = clear.records(clear.accounts)
    totals = clear.votes(clear.red_labels(records, "none", 1), records)
    return clear.scores(combiner, totals, epsilon="none", draws=1)


def test_scores_in_the_clear_are_those_of_a_private_run(tables, clear):
    new = tables.test.transactions
    with train(tables.train.transactions, tables.accounts, SETTINGS) as model:
        batching = Batching(layers=1)
        for combiner in ("stacked", "calibrated", "votes"):
            private = model.score(new, combiner=combiner, batching=batching)["Score"].to_numpy()
            assert np.allclose(private, scores_of(clear, combiner), rtol=1e-9, atol=0), combiner


def test_the_banks_make_a_difference(clear):
    assert not np.allclose(scores_of(clear, "calibrated"), 1 / (1 + np.exp(-clear.alone)))


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


def test_a_finished_seed_is_kept_and_a_file_of_another_study_refused(tmp_path):
    path = tmp_path / "study.json"
    rows = {"alone": Measured(0.5, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))}
    StudyFile(path, 1000).add(Difficulty.HARD, 11, rows)
    again = StudyFile(path, 1000)
    assert again.finished(Difficulty.HARD) == {11: rows}
    assert again.finished(Difficulty.CHALLENGE) == {}
    with pytest.raises(DataError, match=r"another setting \(transactions\)"):
        StudyFile(path, 2000)
    path.write_text("[]")
    with pytest.raises(DataError, match="no study"):
        StudyFile(path, 1000)


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
