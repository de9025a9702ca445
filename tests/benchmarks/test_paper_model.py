"""The study's rows of the paper's model: both ways to score, with noise and without."""

from __future__ import annotations

import numpy as np
import polars as pl

from pv4fad.evaluation.measures import average_precision
from pv4fad.payments.features import compute_features
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import LABEL
from pv4fad.tables.features import FeatureTable
from pv4fad_bench.paper_model import paper_rows
from pv4fad_bench.prepared import records_of


def test_the_papers_model_finds_anomalies_if_there_are_enough_to_learn_from():
    tables = generate_tables(Settings(40_000, 5, Difficulty.CHALLENGE, 501, anomaly_rate=0.005))
    train, new = tables.train.transactions, tables.test.transactions
    both = compute_features(pl.concat([train.drop(LABEL), new.drop(LABEL)]))
    features = tuple(
        FeatureTable(both.names, part)
        for part in (both.values[: len(train)], both.values[len(train) :])
    )
    rows = paper_rows(train, new, records_of(tables.accounts), features, seed=1)
    assert list(rows) == [
        f"paper, {way}, ε = {epsilon}"
        for epsilon in ("none", "1")
        for way in ("votes", "decisions")
    ]
    labels = new[LABEL].to_numpy().astype(np.int8)
    votes, decisions = (rows[f"paper, {way}, ε = none"] for way in ("votes", "decisions"))
    # Scores that know nothing would reach the share of anomalies.
    assert average_precision(labels, votes.scores) > 4 * labels.mean()
    assert (decisions.scores >= 1).sum() == decisions.alerts
    assert 0 < decisions.asked < 2 * len(labels)
    assert not np.array_equal(votes.scores, rows["paper, votes, ε = 1"].scores)
