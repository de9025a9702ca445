"""What the local score is worth, by honest scores of training rows."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pv4fad.detection import local_scale
from pv4fad.detection.fitting import fit_local_model
from pv4fad.detection.local_scale import LocalScale, honest_sample, sample_rows, sample_weights
from pv4fad.payments.features import FeatureTable


def test_the_sample_has_all_anomalies_and_weights_for_the_others(monkeypatch):
    monkeypatch.setattr(local_scale, "SAMPLE", 50)
    labels = (np.arange(1000) % 100 == 0).astype(np.int8)
    rows = sample_rows(labels, 3)
    assert np.array_equal(rows, np.unique(rows))
    assert labels[rows].sum() == 10
    assert len(rows) == 60
    weights = sample_weights(labels[rows], labels)
    assert weights.sum() == pytest.approx(1000)
    assert set(weights[labels[rows] == 1]) == {1.0}


def test_the_scale_is_found_again_in_labels_that_were_drawn_from_it(monkeypatch):
    """5,000 anomalies of 60,000 rows: the slope is known to about 0.02, five times that is far."""
    monkeypatch.setattr(local_scale, "SAMPLE", 20_000)
    rng = np.random.default_rng(4)
    score = rng.normal(-2, 1.5, 60_000)
    labels = (rng.random(60_000) < expit(-1 + 1.4 * score)).astype(np.int8)
    rows = sample_rows(labels, 1)
    found = LocalScale.fit(score[rows], labels[rows], labels)
    assert found.slope == pytest.approx(1.4, abs=0.1)
    assert found.offset == pytest.approx(-1.0, abs=0.15)
    assert found.log_odds(np.array([2.0])) == pytest.approx(found.offset + 2 * found.slope)


def features_with_groups(n=600, n_anomalies=120):
    """The group of an anomaly is its only feature: nothing that holds for another group."""
    labels = np.zeros(n, np.int8)
    labels[:n_anomalies] = 1
    groups = np.where(labels == 1, np.arange(n) % 6, 6 + np.arange(n) % 60)
    return FeatureTable(("group",), groups[:, np.newaxis].astype(np.float32)), labels, groups


def sample_of(features, labels, groups):
    fitted = fit_local_model(features.values, features.names, labels, groups, seed=1)
    return honest_sample(fitted, features.values, labels, 1)


def test_no_row_helps_to_score_its_own_group():
    features, labels, groups = features_with_groups()
    alone = sample_of(features, labels, np.zeros(len(labels), np.int64))
    honest = sample_of(features, labels, groups)
    assert np.array_equal(honest.rows, np.arange(len(labels)))
    # A single group has no honest score but the share of anomalies.
    assert len(np.unique(alone.scores)) == 1
    assert len(np.unique(honest.scores)) > 1


def test_nothing_is_told_about_a_group_that_can_only_be_known_by_heart():
    """Labels by group at random, and features that name the group.  Honest scores are right about
    half of 120 groups; to be right about 80 % of them is 6 standard deviations off."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(120), 5)
    labels = (rng.permutation(120) % 2)[groups].astype(np.int8)
    values = rng.normal(size=(120, 4))[groups].astype(np.float32)
    fitted = fit_local_model(values, tuple("abcd"), labels, groups, seed=1)
    sample, by_heart = honest_sample(fitted, values, labels, 1), fitted.model.score(values)
    assert ((by_heart > 0) == (labels == 1)).mean() > 0.95
    assert ((sample.scores > 0) == (labels == 1)).mean() < 0.8


def test_scores_of_a_thinned_sample_are_log_odds_among_all_rows(monkeypatch):
    """Features tell nothing, so every score is near the log-odds of an anomaly, -3.9 here; in the
    sample these are about -0.5."""
    monkeypatch.setattr(local_scale, "SAMPLE", 300)
    rng = np.random.default_rng(4)
    labels = (rng.random(9000) < 0.02).astype(np.int8)
    noise = FeatureTable(tuple("abc"), rng.normal(size=(9000, 3)).astype(np.float32))
    sample = sample_of(noise, labels, np.arange(9000))
    assert np.median(sample.scores) == pytest.approx(logit(labels.mean()), abs=1)


def test_few_anomalies_leave_the_score_as_it_is():
    features, labels, groups = features_with_groups(n_anomalies=30)
    few = sample_of(features, labels, groups)
    assert few.scale == LocalScale()
    assert len(few.scores) == len(few.rows) == len(labels)
    features, labels, groups = features_with_groups()
    assert sample_of(features, labels, groups).scale != LocalScale()
