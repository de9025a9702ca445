"""Where a large network would break: bounds of a run, of the hub, and of one machine.

Bounds of a run and of the hub are in the code, which refuses what is above them.  Those of a
machine are assumptions: a night for a training, and `MACHINE_BYTES` of memory.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Literal

from pv4fad.deployment.envelope import PART_BYTES
from pv4fad.deployment.exchange import MOST_HEADER_BYTES, Request, to_bytes
from pv4fad.deployment.party_folder import LONGEST_TICK_MS
from pv4fad.hashing.keyed import N_FUNCTIONS
from pv4fad.hashing.tags import log2_false_match_bound
from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.parameters import LOG2_DISTANCE, LOG2_FALSE_MATCH, most_in_a_bin
from pv4fad.protocol.propose.messages import Roster
from pv4fad_bench.network_size import Need
from pv4fad_bench.network_units import OFFER, party_names

NIGHT_S = 8 * 3600
MACHINE_BYTES = 2**40
Unit = Literal["", "log2", "bytes", "hours"]


@dataclass(frozen=True)
class Limit:
    """How large a number may be, and how large it would be."""

    what: str
    unit: Unit
    allowed: float
    here: float

    @property
    def holds(self) -> bool:
        return self.here <= self.allowed


def limits(need: Need) -> tuple[Limit, ...]:
    """Of a run, of the hub, of one machine."""
    network, of_machine = need.network, MACHINE_BYTES
    hub_s = need.units.fragment_cpu_s(network.institutions) * (
        need.total(need.train_bytes) / PART_BYTES
    )
    declared = need.total(lambda one: one.layout.n_accounts_declared)
    roster = network.institutions * need.units.identity_bytes
    return (
        Limit("accounts in a run: counts fit the plaintext", "", PLAIN_MODULI[-1] - 1, declared),
        Limit("chance of a false match in a run", "log2", LOG2_FALSE_MATCH, _false_match(need)),
        Limit("distance from uniform in a match", "log2", LOG2_DISTANCE, _distance(need)),
        Limit("the keys of all institutions in one message", "bytes", Roster.max_bytes, roster),
        Limit("session keys in one header of the hub", "bytes", MOST_HEADER_BYTES, _header(need)),
        Limit("one core of the hub, for a training", "hours", NIGHT_S / 3600, hub_s / 3600),
        Limit("ms between two live queries to a bank", "", LONGEST_TICK_MS, need.tick_ms),
        Limit("memory to prepare a training", "bytes", of_machine, need.prepare_bytes),
        Limit("memory of the live service, payments", "bytes", of_machine, need.known_bytes),
        Limit("memory of the live service, accounts", "bytes", of_machine, need.live_share_bytes),
    )


def holds_up_to(need: Need) -> list[int]:
    """For each limit the most institutions that it allows, with all else in proportion; at most
    those of the network."""

    @cache
    def breaks(n: int) -> list[bool]:
        smaller = Need(need.network.with_institutions(n), need.units)
        return [not one.holds for one in limits(smaller)]

    def most(number: int) -> int:
        sizes = range(2, need.network.institutions + 1)
        return bisect_left(sizes, True, key=lambda n: breaks(n)[number]) + 1

    return [most(number) for number in range(len(limits(need)))]


def _false_match(need: Need) -> float:
    bins = need.total(lambda one: one.layout.n_bins)
    pairs = need.total(
        lambda one: (
            N_FUNCTIONS * one.bank_accounts
            + one.layout.n_blocks * most_in_a_bin(one.bank_accounts, one.layout.n_bins_used)
        )
    )
    return log2_false_match_bound(round(pairs), round(bins), need.units.full.n_atoms)


def _distance(need: Need) -> float:
    blocks = need.total(lambda one: one.layout.n_blocks)
    bounds, n_atoms = need.units.full.parameters.bounds, need.units.full.n_atoms
    per_block = {"values": 2, "distances": 2, "indicators": n_atoms}
    return log2(
        sum(blocks * n * 2.0 ** -bounds[name].distance_bits for name, n in per_block.items())
    )


def _header(need: Need) -> int:
    """Of the first message to a party that works, if all others have shown their keys."""
    offers = dict.fromkeys(party_names(need.network.institutions), OFFER)
    return len(to_bytes(Request("0" * 16, offers=offers)))
