"""The leak check: generated data passes it, and it finds a leak that is there."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from tests.kit.generated import leaks

from pv4fad.payments.generate import (
    Difficulty,
    GeneratedTables,
    Settings,
    generate_tables,
    leak_check,
    unexpected_leaks,
)
from pv4fad.payments.generate.leakcheck import BANK_COLUMNS, ColumnLeak, average_precisions


@pytest.mark.parametrize("difficulty", list(Difficulty))
def test_no_single_column_gives_the_labels_away(difficulty):
    assert unexpected_leaks(leaks(difficulty), difficulty) == ()
    columns = {leak.column for leak in leaks(difficulty)}
    assert columns > {*BANK_COLUMNS, "UETR", "SettlementAmount", "amount_z", "row number"}
    assert "Label" not in columns


def test_flags_tell_more_in_challenge_than_in_hard():
    told = {
        difficulty: {leak.column: leak.average_precision for leak in leaks(difficulty)}
        for difficulty in Difficulty
    }
    # A perfect rule for 800 of 4,900 anomalies.  In `hard` about one flagged message in 13 is an
    # anomaly; ranking codes by their own rates flatters the column at this size.
    assert told[Difficulty.CHALLENGE]["beneficiary flag"] == pytest.approx(0.163, abs=0.02)
    assert told[Difficulty.HARD]["beneficiary flag"] < 0.12


@pytest.mark.parametrize(
    "planted",
    [
        pl.when(pl.col("Label") == 1).then(pl.col("SettlementAmount") + 1e12)
        .otherwise("SettlementAmount").alias("SettlementAmount"),
        pl.when(pl.col("Label") == 1).then(pl.lit("ZZZ")).otherwise("UETR").alias("UETR"),
        pl.when(pl.col("Label") == 1).then(pl.lit("Q") + pl.col("MessageId"))
        .otherwise("MessageId").alias("MessageId"),
    ],
    ids=["amount", "payment", "message id"],
)  # fmt: skip
def test_a_planted_leak_is_found(planted):
    made = generate_tables(Settings(20_000, 10, Difficulty.HARD, seed=1, anomaly_rate=0.01))

    def plant(part):
        return dataclasses.replace(part, transactions=part.transactions.with_columns(planted))

    leaky = GeneratedTables(plant(made.train), plant(made.test), made.accounts)
    names = [leak.column for leak in unexpected_leaks(leak_check(leaky), Difficulty.HARD)]
    assert planted.meta.output_name() in names


def test_only_bank_columns_may_be_telling_and_only_in_challenge():
    found = tuple(ColumnLeak(name, "high value", 0.4) for name in ("beneficiary flag", "hour"))
    assert [x.column for x in unexpected_leaks(found, Difficulty.CHALLENGE)] == ["hour"]
    assert len(unexpected_leaks(found, Difficulty.HARD)) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_average_precision_is_that_of_scikit_learn(pairs):
    score = np.array([value for value, _ in pairs], float)
    label = np.array([positive for _, positive in pairs], float)
    if not label.any():
        assert average_precisions(score, label) == (0.0, 0.0)
        return
    expected = average_precision_score(label, score), average_precision_score(label, -score)
    assert average_precisions(score, label) == pytest.approx(expected)
