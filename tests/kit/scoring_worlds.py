"""Trained worlds to score with: trained once, copied for every test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np
from tests.kit.class_world import ClassWorld
from tests.kit.forest_case import Case
from tests.kit.world import World, make_world

from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.federation import Federation
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, Budget
from pv4fad.store.store import MemoryStore

AnyWorld = TypeVar("AnyWorld", World, ClassWorld)

TRAIN_ROWS = 60  # of 120: so some accounts of the others are new


@cache
def trained(*, seed: int, **options: object) -> World:
    """Not to be used itself: `again` gives a copy."""
    world = make_world(seed, train_rows=TRAIN_ROWS, **options)
    world.train()
    return world


def again(
    world: AnyWorld,
    *,
    copies: bool = True,
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
    budget: Budget = DEFAULT_BUDGET,
    store_of: Callable[..., MemoryStore] = MemoryStore,
) -> AnyWorld:
    """The parties anew, as after a restart, around their stores or around copies of them."""
    federation, pool = world.federation, world.federation.payment_network.pool

    def store(before: MemoryStore) -> MemoryStore:
        if not copies:
            return before
        return store_of(before.party, before.snapshot())

    banks = [
        bank.restarted(store(bank.store), layers_per_day=layers_per_day, budget=budget)
        for bank in federation.banks
    ]
    network = PaymentNetwork(store(federation.payment_network.store), pool)
    aggregator = Aggregator(federation.aggregator.name, store(federation.aggregator.store), pool)
    return replace(world, federation=Federation(network, banks, aggregator))


def rows_of(case: Case, rows: slice) -> Case:
    """Some transactions of a case."""
    accounts = replace(case.accounts, key_of=case.accounts.key_of[rows])
    return replace(case, codes=case.codes[rows], accounts=accounts)


def expected_votes(world: World, case: Case) -> np.ndarray:
    """What the trusted third party says, which knows the model and the records of the case."""
    red = world.oracle.red_labels(world.oracle.counts(world.pairs))
    oracle = TrustedThirdParty(case.forest, case.atoms())
    return oracle.votes(case.codes, case.accounts.key_of, red, world.data.trees.green_labels).sides
