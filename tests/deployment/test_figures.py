"""Figures of stations and of the hub: what was spent, who is there, what was refused."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.hub_world import HubWorld, Scribe
from tests.kit.waiting import comes_true

from pv4fad.deployment.party_figures import Kept, show_aggregator, show_bank
from pv4fad.errors import ParameterError, StoreError
from pv4fad.metrics.catalogue import EPSILON_SPENT
from pv4fad.privacy.ledger import Expense, charge_delta, set_delta_limit, set_limit, spend
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.live.budget import BLOCK, TickBudget
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.metering import Budget, Metered
from pv4fad.protocol.score.state import LayersAnswered
from pv4fad.store.records import Records

NOW = datetime.now(UTC)
TODAY = NOW.date().isoformat()
IN_3_DAYS = (NOW.date() + timedelta(days=3)).isoformat()


@pytest.fixture
def world(tmp_path):
    return HubWorld(tmp_path, ["bank01"])


def samples(figures):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(figures.text().decode())
        for sample in family.samples
    }


def expense(run_id, epsilon):
    return Expense(run_id, epsilon, 1, "an account", "per-bank", "file", NOW, 1)


def test_a_bank_shows_what_it_spent_and_what_is_left_of_the_day(world, tmp_path):
    store, station = world.stores["bank01"], world.new_station(Scribe("bank01"))
    with store.transaction() as tx:
        set_limit(tx, Fraction(3), NOW)
        spend(tx, expense("one", Fraction(1, 2)))
        spend(tx, expense("two", Fraction(3, 4)))
        set_delta_limit(tx, Fraction(1, 2**9), NOW)
        charge_delta(tx, "match", Fraction(1, 2**20), NOW)
        Records.of_party(tx).put(LayersAnswered(TODAY, 30), "routed")
        Records.of_party(tx).put(LayersAnswered("2026-01-01", 9), "broadcast")
    (tmp_path / "ticks.json").write_text(json.dumps({"day": IN_3_DAYS, "ticks": 0}))
    ticks = TickBudget(tmp_path / "ticks.json", 10_000)
    show_bank(station, world.folder("bank01"), store, LiveAnswers("bank01", ticks.spend), ticks)
    try:
        found = samples(station.figures)
    finally:
        station.close()
    assert found[("pv4fad_epsilon_spent",)] == 1.25
    assert found[("pv4fad_epsilon_limit",)] == 3
    assert found[("pv4fad_delta_spent",)] == pytest.approx(2**-20, rel=1e-6)
    assert found[("pv4fad_delta_limit",)] == 2**-9
    assert found["pv4fad_layers_today", "routed"] == 30
    assert found["pv4fad_layers_today", "broadcast"] == 0
    ahead = {
        budget: found["pv4fad_budget_days_ahead", budget] for budget in ("delta", "layers", "ticks")
    }
    assert ahead == {"delta": 0, "layers": 0, "ticks": 3}
    assert found[("pv4fad_live_ticks_left",)] == 10_000
    assert found["pv4fad_live_answers_total", "budget spent"] == 0


def test_ticks_left_are_those_that_are_answered(tmp_path):
    now = [NOW]
    ticks = TickBudget(tmp_path / "ticks.json", BLOCK + 10, lambda: now[0])
    for spent in range(BLOCK + 10):
        assert ticks.left == BLOCK + 10 - spent
        assert ticks.spend()
    assert ticks.left == 0
    assert not ticks.spend()
    now[0] = NOW + timedelta(days=1)
    assert ticks.left == BLOCK + 10


def test_the_aggregator_shows_what_it_passed_on_and_where_it_stopped(tmp_path):
    world = HubWorld(tmp_path, ["bank01", "bank02"])
    store, station = world.stores[AGGREGATOR], world.new_station(Scribe(AGGREGATOR))
    with store.transaction() as tx:
        Records.of_party(tx).put(Metered(TODAY, 7).stopped(Budget(5, 2)), "bank01")
        Records.of_party(tx).put(Metered(IN_3_DAYS, 1), "bank02")
    show_aggregator(station, world.folder(AGGREGATOR), store)
    try:
        found = samples(station.figures)
    finally:
        station.close()
    assert found["pv4fad_metered_positives_today", "bank01"] == 7
    assert found["pv4fad_metered_stopped_at", "bank01"] == 2
    assert found["pv4fad_metered_days_ahead", "bank01"] == 0
    assert found["pv4fad_metered_days_ahead", "bank02"] == 3


def test_while_a_station_is_busy_its_latest_figures_are_shown(world):
    station, free, values = world.new_station(Scribe("bank01")), threading.Event(), [1.0]
    kept = Kept(station, lambda: [EPSILON_SPENT.of(values[0])])

    def shown():
        (family,) = kept.source()
        return family.samples[0].value

    try:
        assert shown() == 1
        station.errand(free.wait)
        values[0] = 2.0
        assert shown() == 1
        free.set()
        assert comes_true(lambda: shown() == 2)
    finally:
        free.set()
        station.close()


def test_a_store_that_cannot_be_read_is_an_error_that_is_counted(world):
    station = world.new_station(Scribe("bank01"))

    def damaged():
        raise StoreError("damaged")

    try:
        assert Kept(station, damaged).source() == ()
        assert samples(station.figures)["pv4fad_errors_total", "StoreError"] == 1
    finally:
        station.close()


def test_the_hub_knows_who_is_there_and_whom_it_refused(world):
    with world.hub():
        with world.station(Scribe("bank01")):
            found = samples(world.hub_figures)
            assert found["pv4fad_hub_connected", "bank01"] == 1
            assert found["pv4fad_hub_connected", PAYMENT_NETWORK] == 0
            assert found[("pv4fad_hub_refused_total",)] == 0
            with pytest.raises(StoreError, match="may not do this"):
                world.start("check", by="bank01")
            assert samples(world.hub_figures)[("pv4fad_hub_refused_total",)] == 1
        assert comes_true(lambda: samples(world.hub_figures)["pv4fad_hub_connected", "bank01"] == 0)


def test_a_station_says_why_it_is_not_ready_and_counts_lost_connections(world):
    station = None
    with world.hub(), world.station(Scribe("bank01")) as node:
        station = node._station
        assert station.figures.problem() == ""
        assert samples(station.figures)[("pv4fad_connected",)] == 1
        node._call.cancel()
        assert comes_true(lambda: samples(station.figures)[("pv4fad_disconnections_total",)] == 1)
    assert station.figures.problem().startswith("not connected with the hub: ")
    assert samples(station.figures)[("pv4fad_connected",)] == 0


def test_figures_elsewhere_than_on_loopback_need_a_certificate(world):
    settings = world.folder("bank01").path / "party.toml"
    settings.write_text(settings.read_text() + 'metrics = "0.0.0.0:9100"\n')
    with pytest.raises(ParameterError, match="needs TLS"):
        world.folder("bank01").metrics_address()
