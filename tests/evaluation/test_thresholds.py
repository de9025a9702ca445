"""What other thresholds would have given, counted row by row."""

import numpy as np
import pytest

from pv4fad.evaluation.thresholds import MULTIPLES, SAMPLE, thresholds


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(2)
    labels = (rng.random(5000) < 0.05).astype(np.int8)
    scores = rng.random(5000) ** 3 * 0.6 + labels * 0.2
    return scores, scores >= 0.4, labels


def test_every_multiple_alerts_what_reaches_it(world):
    scores, alerts, labels = world
    found = thresholds(*world)
    assert found.line == min(score for score, alert in zip(scores, alerts, strict=True) if alert)
    assert [one.multiple for one in found.levels] == list(MULTIPLES)
    for one in found.levels:
        kept = [
            int(label)
            for score, label in zip(scores, labels, strict=True)
            if score >= one.threshold
        ]
        assert one.threshold == one.multiple * found.line
        assert (one.alerts, one.found) == (len(kept), sum(kept))
        assert one.recall.value == sum(kept) / labels.sum()
        assert one.precision is None or one.precision.value == sum(kept) / len(kept)
    at_line = found.levels[MULTIPLES.index(1)]
    assert at_line.alerts == alerts.sum()
    assert [one.alerts for one in found.levels] == sorted(
        (one.alerts for one in found.levels), reverse=True
    )


def test_bands_cover_everything_below_the_line_once(world):
    scores, alerts, labels = world
    found = thresholds(*world)
    assert sum(one.rows for one in found.below) == (~alerts).sum()
    assert sum(one.anomalies for one in found.below) == labels[~alerts].sum()
    for one in found.below:
        inside = (scores >= one.low) & (scores < one.high)
        assert (one.rows, one.anomalies) == (inside.sum(), labels[inside].sum())


def test_the_sample_is_of_rows_below_the_line_and_its_interval_has_their_rate(world):
    _, alerts, labels = world
    sample = thresholds(*world).sample
    assert sample.rows == SAMPLE
    assert 0 < sample.anomalies < labels[~alerts].sum()
    assert sample.rate.low < labels[~alerts].mean() < sample.rate.high
    assert thresholds(*world).sample == sample
    all_anomalous = np.where(alerts, 0, 1).astype(np.int8)
    assert thresholds(world[0], alerts, all_anomalous).sample.anomalies == SAMPLE


def test_a_small_world_is_sampled_whole():
    scores = np.array([0.1, 0.2, 0.9])
    found = thresholds(scores, scores > 0.5, np.array([0, 1, 1], np.int8))
    assert (found.sample.rows, found.sample.anomalies) == (2, 1)
    assert [one.rows for one in found.below] == [0, 0, 2]


def test_without_labels_alerts_are_counted_and_nothing_else(world):
    scores, alerts, _ = world
    found = thresholds(scores, alerts, None)
    assert [one.alerts for one in found.levels] == [one.alerts for one in thresholds(*world).levels]
    assert {one.found for one in found.levels} == {None}
    assert (found.below, found.sample) == ((), None)


@pytest.mark.parametrize("alerts", [[0, 0, 0], [0, 1, 0], [1, 0, 1]])
def test_where_alerts_are_not_the_highest_scores_there_is_no_line(alerts):
    scores = np.array([0.1, 0.2, 0.9])
    assert thresholds(scores, np.array(alerts) == 1, None) is None
