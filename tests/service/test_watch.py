"""Watching: what is counted is what happened, and drift shows where there is some."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.live_service import live_service, live_world

from pv4fad.detection.histograms import BINS, FeatureHistograms, binned, stability_index
from pv4fad.service.decisions import Decision
from pv4fad.service.watch import LEAST, Expected, Watch
from pv4fad.service.watch_figures import quantile_text, watch_page
from pv4fad.tables.features import FeatureTable

UNIFORM = (np.linspace(0, 1, BINS + 1)[1:-1], np.array([1.0] * BINS + [0.0]))
"""Scores that are equally likely everywhere: edges and counts."""
NAMES = ("steady", "moves", "often missing")


def features(rng, n, shift=0.0, missing=0.3):
    values = rng.normal(size=(n, 3)).astype(np.float32)
    values[:, 1] += shift
    values[rng.random(n) < missing, 2] = np.nan
    return values


def decision(how="local only", level=0):
    return Decision("id", level > 0, level, 0.5, (), how, "2026-01-01T00:00:00+00:00")


# The index.


def test_training_fills_the_bins_alike():
    rng = np.random.default_rng(1)
    kept = FeatureHistograms.of(NAMES, features(rng, 10_000))
    assert kept.counts.sum(axis=1).tolist() == [10_000] * 3
    assert (np.abs(kept.counts[0, :BINS] - 1000) < 5).all()
    assert kept.counts[0, BINS] == 0
    assert abs(kept.counts[2, BINS] - 3000) < 300


def test_the_index_of_equal_shares_is_zero_and_known_otherwise():
    assert stability_index(np.array([10, 30]), np.array([100, 300])) == 0
    found = stability_index(np.array([50, 50]), np.array([80, 20]))
    assert found == pytest.approx(0.3 * np.log(0.8 / 0.5) + -0.3 * np.log(0.2 / 0.5))


def test_bins_that_are_empty_on_both_sides_do_not_count():
    few, many = np.array([5, 5, 0, 0]), np.array([5000, 5000, 0, 0])
    assert stability_index(few, many) == 0
    assert np.isfinite(stability_index(np.array([10, 0]), np.array([0, 10])))


def test_constant_and_always_missing_features_are_no_drift():
    values = np.stack([np.ones(2000), np.full(2000, np.nan)], axis=1).astype(np.float32)
    kept = FeatureHistograms.of(("one", "none"), values)
    assert stability_index(kept.counts, binned(kept.edges, values[:500])).tolist() == [0, 0]


def test_drift_is_found_where_it_is_and_nowhere_else():
    """A shift of half a deviation has an index of about 0.25; without one, 5,000 payments have an
    index of about 10/5000: 0.05 is never reached (below 1e-9)."""
    rng = np.random.default_rng(2)
    kept = FeatureHistograms.of(NAMES, features(rng, 50_000))
    watch = Watch(Expected(kept, *UNIFORM))
    watch.features(FeatureTable(NAMES, features(rng, 5_000, shift=0.7)))
    watch.decided([], rng.random(5_000))
    drift = watch.drift()
    assert next(iter(drift.features)) == "moves"
    assert drift.features["moves"] > 0.25
    assert drift.features["steady"] < 0.05
    assert drift.features["often missing"] < 0.05


def test_more_missing_values_are_drift():
    rng = np.random.default_rng(3)
    kept = FeatureHistograms.of(NAMES, features(rng, 50_000))
    found = binned(kept.edges, features(rng, 5_000, missing=0.8))
    assert stability_index(kept.counts, found)[2] > 0.5


def test_few_payments_say_nothing_about_drift():
    watch = Watch(Expected(None, *UNIFORM))
    watch.decided([], np.zeros(LEAST - 1))
    assert watch.drift().score is None
    watch.decided([], np.zeros(1))
    assert watch.drift().score > 0.25


def test_the_scores_of_training_are_their_own_reference():
    own = live_world().engine.judging.own
    expected = Expected.of(own.histograms, own.knowledge)
    scores = -np.expm1(-own.knowledge.hazard)
    n_copies = -(-LEAST // len(scores))
    watch = Watch(expected)
    weighted = np.random.default_rng(4).choice(
        scores, 20_000 * n_copies, p=own.knowledge.weight / own.knowledge.weight.sum()
    )
    watch.decided([], weighted)
    assert watch.drift().score < 0.02


# Counting.


def test_minutes_pass_and_old_ones_are_forgotten():
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    watch.decided([decision(level=2), decision("banks asked")], np.zeros(2))
    now[0] = 59 * 60
    watch.decided([decision()], np.zeros(1))
    assert [minute.payments for minute in watch.minutes(60)] == [2] + [0] * 58 + [1]
    assert watch.over(60).levels == {2: 1}
    now[0] = 60 * 60
    assert watch.over(60).payments == 1
    now[0] = 30 * 3600
    watch.decided([decision()], np.zeros(1))
    assert watch.over(24 * 60).payments == 1
    assert b'pv4fad_payments_total{decided="local only"} 3.0' in watch.metrics()


def test_latency_is_told_by_the_end_of_its_bin():
    watch = Watch()
    watch.answered([0.004] * 98)
    watch.answered([0.7, 60])
    assert quantile_text(watch.over(60).latency, 0.5) == "≤ 5 ms"
    assert quantile_text(watch.over(60).latency, 0.99) == "≤ 1 s"
    assert quantile_text(watch.over(60).latency, 1.0) == "> 10 s"


def test_a_service_without_payments_has_a_page():
    assert watch_page(Watch())["drift"].score is None


def test_metrics_and_page_say_what_the_service_did(tmp_path):
    payments = live_world().payments
    with live_service(tmp_path) as service:
        answers = service.post("/payments/batch", payments).json()
        service.post("/payments/batch", payments)  # again: not decided again
        own = {"authorization": f"Bearer {service.tokens['metrics']}"}
        text = service.client.get("/metrics", headers=own).text
        page = service.log_in().get("/watch").text
    samples = {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    for how in ("local only", "account not yet matched"):
        n_decided = sum(one["decided"] == how for one in answers)
        assert samples["pv4fad_payments_total", how] == n_decided
    n_alerts = sum(one["alert"] for one in answers)
    assert sum(samples["pv4fad_alerts_total", str(level)] for level in (1, 2, 3)) == n_alerts
    assert samples["pv4fad_latency_seconds_count",] == len(payments)
    assert samples["pv4fad_latency_seconds_bucket", "+Inf"] == len(payments)
    assert samples["pv4fad_under_way",] == 0
    assert samples["pv4fad_alerts_new",] == n_alerts
    assert f"<dd>{len(payments):,}<small>" in page
    assert page.count("<svg") >= 4
