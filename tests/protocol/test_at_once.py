"""Parties that work at the same time, with real worker processes: the same counts and bits."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import pytest
from tests.kit.class_world import make_class_world
from tests.kit.world import match_accounts

from pv4fad.errors import OrderError
from pv4fad.lead.federation import Federation
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase
from pv4fad.workers import WorkerPool

ASKED = AskedSet((1, 2), True)
N_NEW = 10


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as pool:
        yield pool


class InterruptedError(Exception):
    """Raised where an interrupt would be."""


class AtOnce:
    """Notes how many messages are worked on at the same time; interrupts so many messages after
    the beginning, and so many after that, and so on."""

    def __init__(self, federation: Federation, interrupts: Iterable[int] = ()):
        self.most = 0
        self.left = list(interrupts)
        self._working = self._seen = 0
        self._lock = threading.Lock()
        for party in (federation.payment_network, federation.aggregator, *federation.banks):
            party.handle = self._noting(party.handle)

    def _noting(self, handle):
        def noting(data):
            with self._lock:
                self._working += 1
                self.most = max(self.most, self._working)
            try:
                return handle(data)
            finally:
                with self._lock:
                    self._working -= 1

        return noting

    def observe(self, *_):
        self._seen += 1
        if self.left and self._seen == self.left[0]:
            self._seen = 0
            self.left.pop(0)
            raise InterruptedError


def carry_through(begin, federation: Federation, observe: AtOnce) -> None:
    """To the end, however often it is interrupted."""
    while True:
        try:
            return begin(observe.observe)
        except InterruptedError:
            begin = federation.resume


def disk_stores(folder):
    def store_of(name):
        return DiskStore.create(folder / name, name, Passphrase("correct horse battery"))

    return store_of


def test_counts_and_bits_equal_those_of_a_trusted_third_party(pool, tmp_path):
    """Three banks, two at once; training, then accounts that are new, then a question."""
    world = make_class_world(
        3,
        n_banks=3,
        n_new=N_NEW,
        pool=pool,
        banks_at_once=2,
        store_of=disk_stores(tmp_path),
    )
    watch = AtOnce(world.federation)
    world.train()
    assert np.array_equal(world.counts(), world.true_counts())
    assert watch.most > 1
    match_accounts(world, world.account_keys, replace=False)
    everybody = np.arange(len(world.keys))
    bits = world.ask(everybody, ASKED)
    assert np.array_equal(bits, world.true_bits(everybody, ASKED))
    assert 0 < bits.sum() < len(bits)


def test_interrupted_again_and_again_it_ends_with_the_right_counts(pool, tmp_path):
    """Some parties were in the middle of a message, some had just answered theirs."""
    world = make_class_world(
        4, n_banks=3, pool=pool, banks_at_once=2, store_of=disk_stores(tmp_path)
    )
    watch = AtOnce(world.federation, interrupts=[3, 7, 12, 15])
    carry_through(world.train, world.federation, watch)
    assert not watch.left
    assert np.array_equal(world.counts(), world.true_counts())


def test_the_refusal_of_one_bank_names_it_and_the_others_can_go_on_later(pool):
    world = make_class_world(5, n_banks=3, pool=pool, banks_at_once=3)
    refusing = world.federation.banks[1]
    handle = refusing.handle

    def refuse(data):
        raise OrderError("not today")

    refusing.handle = refuse
    with pytest.raises(OrderError, match="bank02: not today"):
        world.train()
    refusing.handle = handle
    world.federation.resume()
    assert np.array_equal(world.counts(), world.true_counts())
