"""What the local score is worth, learnt from scores of rows that helped with none of them."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pv4fad.data.features import FeatureTable
from pv4fad.detection import local_scale
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.local_scale import (
    LEAST_ANOMALIES,
    LocalScale,
    honest_sample,
    sample_rows,
    sample_weights,
)


def scored(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """True log-odds of rare anomalies, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-4, 2, n)
    return log_odds, (rng.random(n) < expit(log_odds)).astype(np.int8)


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 0.0), (2.0, 0.0), (1.0, 3.0), (0.5, -2.0)])
def test_scores_on_another_scale_are_brought_back_to_log_odds(factor, shift):
    """Some 3,000 anomalies: offset and slope are known to a few hundredths, and 0.2 is far out."""
    truth, labels = scored(50_000)
    scale = LocalScale.fit(factor * truth + shift, labels, labels)
    found = scale.log_odds(factor * np.array([-6.0, -3.0, 0.0, 2.0]) + shift)
    np.testing.assert_allclose(found, [-6, -3, 0, 2], atol=0.3)


def test_a_thinned_sample_tells_the_same_as_all_rows():
    truth, labels = scored(50_000)
    kept = (labels == 1) | (np.random.default_rng(2).random(len(labels)) < 0.2)
    whole = LocalScale.fit(truth, labels, labels)
    thinned = LocalScale.fit(truth[kept], labels[kept], labels)
    at = np.array([-6.0, -3.0, 0.0])
    np.testing.assert_allclose(thinned.log_odds(at), whole.log_odds(at), atol=0.2)
    # Without the weights of `all_labels` the offset would be higher by log(5).
    unweighted = LocalScale.fit(truth[kept], labels[kept], labels[kept])
    assert unweighted.offset > whole.offset + 1


def test_few_rows_change_little():
    """Beforehand the score is taken as it is."""
    scale = LocalScale.fit(np.array([-3.0, 2.0]), np.array([0, 1], np.int8), np.array([0, 1]))
    assert abs(scale.offset) < 0.5
    assert 0.8 < scale.slope < 1.5
    assert LocalScale().log_odds(np.array([-1.5, 2.0])).tolist() == [-1.5, 2.0]


def test_the_sample_has_all_anomalies_and_so_many_others(monkeypatch):
    monkeypatch.setattr(local_scale, "SAMPLE", 100)
    labels = (np.arange(1000) % 10 == 0).astype(np.int8)
    rows = sample_rows(labels, 1)
    assert set(np.flatnonzero(labels)) <= set(rows)
    assert len(rows) == len(set(rows)) == 200
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(rows, sample_rows(labels, 1))
    assert not np.array_equal(rows, sample_rows(labels, 2))
    weights = sample_weights(labels[rows], labels)
    assert weights[labels[rows] == 1].tolist() == [1.0] * 100
    assert weights[labels[rows] == 0].sum() == pytest.approx(900)


def table(values: np.ndarray) -> FeatureTable:
    names = tuple(f"f{number}" for number in range(values.shape[1]))
    return FeatureTable(names, values.astype(np.float32))


def test_scores_are_out_of_fold():
    """Labels by group, at random, and features that name the group: nothing can be learnt of new
    groups, and everything by heart.  With 60 groups of each label, honest scores that told them
    apart as here would be 7 standard deviations off."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(120), 5)
    of_group = rng.permutation(120) % 2
    values = rng.normal(size=(120, 4))[groups]
    labels = of_group[groups].astype(np.int8)
    sample = honest_sample(table(values), labels, groups, 1)
    assert np.array_equal(sample.rows, np.arange(600))
    by_heart = LocalModel.fit(values.astype(np.float32), tuple("abcd"), labels, groups, seed=1)[0]
    known = by_heart.score(values.astype(np.float32))
    assert ((known > 0) == (labels == 1)).mean() > 0.95
    assert ((sample.scores > 0) == (labels == 1)).mean() < 0.8


def test_scores_of_a_thinned_sample_are_log_odds_among_all_rows(monkeypatch):
    monkeypatch.setattr(local_scale, "SAMPLE", 300)
    rng = np.random.default_rng(4)
    labels = (rng.random(9000) < 0.02).astype(np.int8)
    noise = table(rng.normal(size=(9000, 3)))  # that tells nothing
    sample = honest_sample(noise, labels, np.arange(9000), 1)
    # Nothing to tell apart: every score is near the log-odds of an anomaly, -3.9; in the sample
    # it is a third or so.
    assert np.median(sample.scores) == pytest.approx(logit(labels.mean()), abs=1)


@pytest.mark.parametrize("n_anomalies", [LEAST_ANOMALIES - 1, LEAST_ANOMALIES])
def test_with_few_anomalies_the_score_is_taken_as_it_is(n_anomalies):
    labels = (np.arange(1000) < n_anomalies).astype(np.int8)
    values = np.random.default_rng(5).normal(size=(1000, 2))
    values[:, 0] += 2 * labels
    sample = honest_sample(table(values), labels, np.arange(1000), 1)
    assert (sample.scale == LocalScale()) == (n_anomalies < LEAST_ANOMALIES)
