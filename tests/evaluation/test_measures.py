"""The measures mean what they say: equal to scikit-learn and to brute force, ties included."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from pv4fad.errors import DataError, ParameterError
from pv4fad.evaluation.measures import (
    Ranking,
    at_budget,
    average_precision,
    average_precision_interval,
    precision_recall_curve,
    recall_interval,
)


def labelled(max_size: int):
    """Labels with a positive, and scores with many ties."""
    rows = st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([-2.0, 0.0, 0.1, 0.5, 7.0])),
        min_size=1,
        max_size=max_size,
    )
    return rows.map(np.array).filter(lambda some: some[:, 0].any())


@given(labelled(60))
def test_average_precision_equals_that_of_scikit_learn(rows):
    labels, scores = rows.T
    assert average_precision(labels, scores) == pytest.approx(
        average_precision_score(labels, scores), abs=1e-12
    )


def test_average_precision_of_distinct_scores_equals_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    labels, scores = rng.random(5000) < 0.01, rng.normal(size=5000)
    scores[labels] += 1
    assert average_precision(labels, scores) == pytest.approx(
        average_precision_score(labels, scores), abs=1e-12
    )


@given(labelled(6), st.floats(0.01, 1))
def test_a_budget_that_ends_among_ties_finds_the_mean_over_all_their_orders(rows, share):
    labels, scores = rows.T
    result = at_budget(labels, scores, share)
    found = [
        labels[list(order)][: result.alerts].sum()
        for order in permutations(range(len(labels)))
        if np.all(np.diff(scores[list(order)]) <= 0)
    ]
    assert result.alerts == max(1, round(share * len(labels)))
    assert result.found == pytest.approx(np.mean(found))
    assert result.precision == pytest.approx(np.mean(found) / result.alerts)
    assert result.recall == pytest.approx(np.mean(found) / labels.sum())


@given(labelled(40))
def test_the_step_area_under_the_curve_is_the_average_precision(rows):
    labels, scores = rows.T
    curve = precision_recall_curve(labels, scores)
    area = np.sum(np.diff(curve.recall, prepend=0) * curve.precision)
    assert area == pytest.approx(average_precision(labels, scores))
    assert curve.recall[-1] == 1
    assert np.all(np.diff(curve.scores) < 0)


@given(labelled(40))
def test_a_ranking_counts_every_transaction_once(rows):
    labels, scores = rows.T
    ranking = Ranking.of(labels, scores)
    assert ranking.n == len(labels)
    assert ranking.n_positives == labels.sum()
    lowest = scores[labels == 1].min()
    assert ranking.rest == np.sum((labels == 0) & (scores < lowest))


def test_a_resampled_ranking_measures_like_resampled_rows():
    """Mean and spread of the bootstrap, against drawing rows.

    4000 draws each: standard error of the difference of the means about 0.002, of the spreads
    about 0.0015; the bounds are seven of them, so chance alone fails this once in 10^10 seeds (and
    the seed is fixed).  A spread that is off by a quarter is always found.
    """
    rng = np.random.default_rng(5)
    labels = np.arange(300) < 30
    scores = np.round(rng.normal(size=300) + 1.2 * labels, 1)
    drawn = Ranking.of(labels, scores).resampled(4000, rng)
    alerts = np.cumsum(drawn.between + drawn.positives + drawn.ties, axis=1)
    precision = np.cumsum(drawn.positives, axis=1) / np.maximum(alerts, 1)
    quick = np.sum(drawn.positives * precision, axis=1) / drawn.n_positives
    rows = rng.integers(0, 300, size=(4000, 300))
    slow = np.array([average_precision(labels[some], scores[some]) for some in rows])
    assert np.all(drawn.n == 300)
    assert abs(quick.mean() - slow.mean()) < 0.014
    assert abs(quick.std() - slow.std()) < 0.01


def test_the_bootstrap_interval_holds_the_estimate_and_narrows_with_the_data():
    rng = np.random.default_rng(2)
    widths = []
    for n in (2000, 32000):
        labels = np.arange(n) < n // 50
        scores = rng.normal(size=n) + 1.5 * labels
        for interval in (
            average_precision_interval(labels, scores, seed=1),
            recall_interval(labels, scores, 0.02, seed=1),
        ):
            assert interval.low < interval.value < interval.high
            widths.append(interval.high - interval.low)
    # Sixteen times the data: a quarter of the width, give or take what 40 positives say.
    assert widths[2] < 0.5 * widths[0]
    assert widths[3] < 0.5 * widths[1]


def test_a_bootstrap_interval_depends_on_nothing_but_its_seed():
    labels, scores = [1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.1, 0.2]
    one, two = (average_precision_interval(labels, scores, seed=3) for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("labels", "scores", "problem"),
    [
        ([0, 0], [1, 2], "nothing to find"),
        ([0, 2], [1, 2], "0 or 1"),
        ([0, 1], [1, np.nan], "1 scores are not numbers"),
        ([0, 1], [1, 2, 3], "do not fit"),
    ],
)
def test_what_cannot_be_measured_is_refused(labels, scores, problem):
    with pytest.raises(DataError, match=problem):
        average_precision(labels, scores)


@pytest.mark.parametrize("share", [0, -1, 1.5, float("nan")])
def test_an_impossible_budget_is_refused(share):
    with pytest.raises(ParameterError, match="alert budget"):
        at_budget([0, 1], [0, 1], share)


def test_a_budget_below_one_transaction_still_buys_one_alert():
    assert at_budget([0, 1], [0, 1], 0.0001).alerts == 1
