"""Stability over time, against a few lines of numpy that count row by row."""

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from pv4fad.evaluation.measures import share_interval
from pv4fad.evaluation.stability import population_stability, stability

BEGIN = datetime(2026, 3, 1, 13)


def world(days: int, seed: int = 4):
    """Rows in no order, some of them anomalous, the highest scores alerts."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, days, 3000)
    day[:2] = 0, days - 1
    times = pl.Series([BEGIN + timedelta(days=int(one)) for one in day])
    labels = (rng.random(3000) < 0.02).astype(np.int8)
    scores = np.round(rng.random(3000) * (1 + day / days) + labels, 2)
    return day, times, scores, scores > 1.8, labels


@pytest.mark.parametrize(("days", "step"), [(5, 1), (14, 1), (15, 7), (40, 7)])
def test_periods_count_their_rows_alerts_and_finds(days, step):
    day, times, scores, alerts, labels = world(days)
    periods = stability(times, scores, alerts, labels)
    assert [one.begin for one in periods] == [
        date(2026, 3, 1) + timedelta(days=n) for n in range(0, days, step)
    ]
    for number, one in enumerate(periods):
        here = day // step == number
        assert one.days == step
        assert one.rows == here.sum()
        assert one.alerts == alerts[here].sum()
        assert one.alert_share.value == alerts[here].mean()
        assert one.anomalies == labels[here].sum()
        assert one.found == (alerts & (labels == 1))[here].sum()
        assert one.detection is None or one.detection.value == one.found / one.anomalies


def test_the_index_is_that_of_its_definition():
    """Deciles of the first day; half a row in each bin more than there is."""
    day, times, scores, alerts, labels = world(3)
    first, *others = stability(times, scores, alerts, labels)
    assert first.psi == first.psi_by_chance == 0
    edges = np.quantile(scores[day == 0], np.arange(1, 10) / 10)
    for number, one in enumerate(others, start=1):
        p, q = (
            np.array([(np.digitize(part, edges) == k).sum() + 0.5 for k in range(10)])
            for part in (scores[day == number], scores[day == 0])
        )
        p, q = p / p.sum(), q / q.sum()
        assert one.psi == pytest.approx(sum((p - q) * np.log(p / q)))
        n, m = (day == number).sum(), (day == 0).sum()
        assert one.psi_by_chance == pytest.approx(9 * (1 / n + 1 / m))
    assert others[1].psi > others[0].psi > 10 * others[0].psi_by_chance


def test_without_a_change_the_index_is_what_chance_gives():
    """The mean of 200 deviates by some three per cent: a fifth is more than six times that."""
    rng = np.random.default_rng(8)
    drawn = [population_stability(rng.random(700), rng.random(500))[0] for _ in range(200)]
    assert np.mean(drawn) == pytest.approx(9 * (1 / 700 + 1 / 500), rel=0.2)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_shift_shows_even_if_all_scores_were_equal(shift):
    same, n_bins = population_stability(np.full(50, 0.5), np.full(80, 0.5))
    moved, _ = population_stability(np.full(50, 0.5 + shift), np.full(80, 0.5))
    assert n_bins == 3  # below, equal, above
    assert same < 0.01
    assert moved > 5


def test_without_labels_there_is_no_detection_and_a_quiet_week_is_left_out():
    times = pl.Series([BEGIN, BEGIN + timedelta(days=20)])
    periods = stability(times, np.array([0.1, 0.9]), np.array([False, True]), None)
    assert [one.name for one in periods] == [
        "2026-03-01 to 2026-03-07",
        "2026-03-15 to 2026-03-21",
    ]
    assert {(one.anomalies, one.found, one.detection) for one in periods} == {(None, None, None)}


@pytest.mark.parametrize(("cases", "of"), [(0, 7), (7, 7), (1, 300), (40, 90)])
def test_an_interval_is_that_of_clopper_and_pearson(cases, of):
    found = share_interval(cases, of)
    exact = binomtest(cases, of).proportion_ci(0.95, "exact")
    assert found.value == cases / of
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
