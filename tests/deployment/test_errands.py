"""Errands: what others want of a party is done by its own thread, between two messages."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.kit.hub_world import PATIENCE_S, HubWorld, Scribe
from tests.kit.waiting import comes_true

from pv4fad.deployment.hub.carrier import connected
from pv4fad.protocol.roles import PAYMENT_NETWORK


@pytest.fixture
def world(tmp_path):
    return HubWorld(tmp_path, ["bank01"])


def test_an_errand_is_run_at_once_by_the_thread_of_the_party(world):
    station = world.new_station(Scribe("bank01"))
    try:
        names = [station.errand(lambda: threading.current_thread().name) for _ in range(3)]
        assert [one.result(PATIENCE_S) for one in names] == ["party"] * 3
        failed = station.errand(lambda: 1 // 0)
        assert isinstance(failed.exception(PATIENCE_S), ZeroDivisionError)
        assert station.errand(lambda: 5).result(PATIENCE_S) == 5
    finally:
        station.close()
    assert station.errand(lambda: 6).cancelled()


def test_an_errand_waits_for_the_message_under_way_and_not_for_the_next(world):
    handling, goes_on = threading.Event(), threading.Semaphore(0)

    def handle():
        handling.set()
        assert goes_on.acquire(timeout=PATIENCE_S)

    bank, network = Scribe("bank01", before_handling=handle), Scribe(PAYMENT_NETWORK)
    network.letters = {"bank01": [np.zeros(5, np.uint32)] * 3}
    station = world.new_station(bank)
    with (
        world.hub(),
        world.station(network),
        world.station(Scribe("aggregator")),
        connected(world.folder("bank01"), station) as node,
    ):
        assert node.wait_until_connected(PATIENCE_S)
        world.start("train")
        assert handling.wait(PATIENCE_S)
        done = station.errand(lambda: bank.n_handled)
        assert not comes_true(done.done, 0.3)
        goes_on.release()
        assert done.result(PATIENCE_S) == 1  # before the second letter
        goes_on.release(2)
        assert world.finished().state == "finished"
        assert station.errand(lambda: bank.n_handled).result(PATIENCE_S) == 3
    station.close()


def test_errands_of_a_station_that_is_closed_are_not_run(world):
    station = world.new_station(Scribe("bank01"))
    begun, goes_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        return goes_on.wait(PATIENCE_S)

    held = station.errand(hold)
    assert begun.wait(PATIENCE_S)
    closing = threading.Thread(target=station.close)
    closing.start()
    assert comes_true(lambda: station._closed)
    goes_on.set()
    closing.join(PATIENCE_S)
    assert held.result(0)
    assert station.errand(lambda: 1).cancelled()
