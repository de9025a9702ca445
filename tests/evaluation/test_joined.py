"""The detector with all data in one place uses what the banks know."""

import numpy as np
import polars as pl
from tests.kit.scored_run import write_data

from pv4fad.evaluation.joined import joined_scores
from pv4fad.evaluation.measures import average_precision
from pv4fad.evidence.strata import N_STRATA
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA


def test_without_the_flags_everything_joined_finds_less(tmp_path):
    """In `challenge` data a flag means an anomaly; here all banks forget their flags."""
    settings = Settings(2000, 3, Difficulty.CHALLENGE, 4, anomaly_rate=0.05, accounts=300)
    tables = generate_tables(settings)
    labels = tables.test.transactions["Label"].to_numpy()
    found = []
    for name in ("flags", "forgotten"):
        data = write_data(tmp_path / name, tables)
        if name == "forgotten":
            for file in data.glob("*/*/bank*/*.csv"):
                records = pl.read_csv(file, infer_schema=False)
                records.with_columns(Flags=pl.lit("00")).write_csv(file)
        scenario = data / "scenario01"
        scores = joined_scores(SCHEMA, scenario / "train", scenario / "test")
        found.append(average_precision(labels, scores))
    assert found[0] > found[1] + 0.02, found


def test_everything_joined_uses_the_label_history_of_accounts_as_well(tmp_path, monkeypatch):
    """It raises the scores of payments with an account that saw an anomaly, and no others."""
    tables = generate_tables(Settings(2000, 3, Difficulty.HARD, 4, anomaly_rate=0.05, accounts=300))
    scenario = write_data(tmp_path / "data", tables) / "scenario01"
    scores = joined_scores(SCHEMA, scenario / "train", scenario / "test")
    anomalies = tables.train.transactions.filter(pl.col("Label") == 1)
    seen = tables.test.transactions.select(
        pl.col(side).is_in(anomalies[side].implode())
        for side in ("OrderingAccount", "BeneficiaryAccount")
    )
    nothing = lambda *_: np.full((2, 2, N_STRATA, 2), -np.inf)  # noqa: E731
    monkeypatch.setattr("pv4fad.evidence.knowledge.history_log_odds", nothing)
    without = joined_scores(SCHEMA, scenario / "train", scenario / "test")
    hit = seen.to_numpy().any(axis=1)
    assert 0 < hit.sum() < len(hit)
    np.testing.assert_array_equal(scores > without, hit)
    np.testing.assert_array_equal(scores[~hit], without[~hit])
