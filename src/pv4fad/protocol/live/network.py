"""The payment network's part of ask live: where accounts are, what is sent, what a reply says.

All of it is read from the store once for a match in force (`read_tables`); from then on it is in
memory, and no store is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, ProtocolError
from pv4fad.he.keys import PublicKey
from pv4fad.he.one_hot import weight_bits
from pv4fad.he.ring import RingParameters
from pv4fad.he.sanitise import Flood
from pv4fad.protocol.checks import expect
from pv4fad.protocol.live.messages import LiveQuery, LiveRefusal, LiveReply
from pv4fad.protocol.live.plan import TRACKS, bound_of, weights_of
from pv4fad.protocol.live.steps import Placed, bits_of
from pv4fad.protocol.match.network import ShareBlocks, opened_atoms
from pv4fad.protocol.match.state import MatchesInForce, PlacedTable
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.state import BankPublic
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.state import parameters_of, with_keys_in_use
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.store.records import Records

Integers = NDArray[np.int64]


class LiveRefusalError(ProtocolError):
    """A bank has not answered a query, and says why."""


@dataclass(frozen=True)
class LiveTables:
    """The routed tables of all matches in force, with the keys in use.

    Accounts have numbers; arrays are by number.
    """

    run_id: str
    epoch: int
    """The match of all accounts: its keys are in use, and with it an epoch began."""
    ring: RingParameters
    n_atoms: int
    sets: tuple[AskedSet, ...] = field(repr=False)
    public: Mapping[str, PublicKey] = field(repr=False)
    """Of each bank."""
    number: Mapping[bytes, int] = field(repr=False)
    """Of each account, by what is hashed of it."""
    bank: Integers = field(repr=False)  # number among the banks
    block: Integers = field(repr=False)  # over all tables of the bank
    slot: Integers = field(repr=False)
    offsets: NDArray[np.uint32] = field(repr=False)
    """(accounts, sets): [absent in A] + Σ_k c_k·u_k."""

    @property
    def banks(self) -> tuple[str, ...]:
        return tuple(self.public)

    @property
    def flood(self) -> Flood:
        return bound_of(self.ring, self.n_atoms, len(self.sets)).flood

    @property
    def coefficients(self) -> list[list[int]]:
        """c_k of each set."""
        return [one.coefficients(self.n_atoms).tolist() for one in self.sets]

    def numbers_of(self, hashed: Sequence[bytes]) -> Integers:
        """-1 for accounts that are in no routed table."""
        return np.array([self.number.get(one, -1) for one in hashed], np.int64)


@dataclass(frozen=True)
class Asked:
    """What one query asks: accounts by number, and sets; arrays of equal length."""

    account: Integers = field(repr=False)
    set: Integers = field(repr=False)
    placed: Placed = field(repr=False)


def read_tables(training: Records, sets: Sequence[AskedSet]) -> LiveTables:
    """From the store.  `sets`: what is asked about, by number."""
    keys = with_keys_in_use(training)
    parameters = parameters_of(keys)
    if parameters.mode != "counts":
        raise OrderError("a model of the paper is not asked live")
    if parameters.metered:
        raise OrderError("a metered model is not asked live: its answers pass the aggregator")
    ring, n_atoms = parameters.share_ring, parameters.sizes.n_atoms
    banks = list(parameters.banks)
    coefficients = np.array([one.coefficients(n_atoms) for one in sets], np.int64)
    absent = np.array([[one.absent] for one in sets], np.int64)
    number: dict[bytes, int] = {}
    parts: list[tuple[Integers, Integers, Integers, NDArray[np.uint32]]] = []
    for name in banks:
        for first_block, plan, records in _tables_of(training, name):
            table = records.get(PlacedTable, plan.table_id)
            u = opened_atoms(plan, name, records)[:, table.bins].astype(np.int64)
            offsets = (absent + coefficients @ u) % parameters.plain_modulus
            parts.append(
                (
                    np.full(len(table.bins), banks.index(name), np.int64),
                    first_block + table.bins // ring.degree,
                    table.bins % ring.degree,
                    offsets.T.astype(np.uint32),
                )
            )
            for account in table.account_ids():
                number[account] = len(number)
    nothing = np.zeros(0, np.int64)
    no_offsets = np.zeros((0, len(sets)), np.uint32)
    parts.append((nothing, nothing, nothing, no_offsets))
    bank, block, slot, offsets_of = (np.concatenate(part) for part in zip(*parts, strict=True))
    if len(number) != len(slot):
        raise OrderError("a record is in two tables")
    public = {name: keys.get(BankPublic, name).key(ring) for name in banks}
    return LiveTables(
        *(training.run_id, keys.epoch, ring, n_atoms, tuple(sets), public, number),
        *(bank, block, slot, offsets_of),
    )


def read_shares(training: Records, bank: str) -> Iterator[tuple[bytes, ...]]:
    """From the store: E_j[s_k] for each atom k, block by block."""
    for _, plan, records in _tables_of(training, bank):
        parameters = parameters_of(records)
        shares = ShareBlocks(parameters, plan, bank, records)
        for block in range(_n_blocks(parameters, plan)):
            yield shares.of_block(block)


def _tables_of(training: Records, bank: str) -> Iterator[tuple[int, TablePlan, Records]]:
    """The routed tables in force of a bank: number of the first block, plan, records."""
    first_block = 0
    for epoch in training.get(MatchesInForce).epochs:
        records = training.of_epoch(epoch)
        parameters = parameters_of(records)
        for plan in parameters.tables_of(bank):
            if not plan.broadcast:
                yield first_block, plan, records
                first_block += _n_blocks(parameters, plan)


def _n_blocks(parameters: RunParameters, plan: TablePlan) -> int:
    return plan.layout.n_blocks * parameters.share_blocks_per_block(plan)


def place(
    tables: LiveTables, account: Integers, of_set: Integers, most: int
) -> tuple[Asked, NDArray[np.bool_]]:
    """A query about the first of these questions that fit into it, at most `most`; and which.

    They are about accounts of one bank, and all different.
    """
    slot = tables.slot[account]
    weight = weights_of(slot % TRACKS)
    fit = weight < weight_bits(tables.ring.plain_modulus)
    fit &= np.cumsum(fit) <= most
    account, of_set = account[fit], of_set[fit]
    placed = Placed(tables.block[account], slot[fit], of_set, weight[fit])
    return Asked(account, of_set, placed), fit


@dataclass(frozen=True)
class Sent:
    """A query that is on its way: what the payment network keeps of it until the reply."""

    bank: str
    tick: int
    asked: Asked = field(repr=False)
    rho: NDArray[np.uint32] = field(repr=False)


def send(tables: LiveTables, sent: Sent, clock: bytes, ciphertext: bytes) -> bytes:
    """Step 1, as a message."""
    return encode(LiveQuery(_address(tables, sent), clock, ciphertext))


def read_reply(tables: LiveTables, sent: Sent, data: bytes) -> NDArray[np.int8]:
    """Step 3: the answer to each question.

    `LiveRefusalError` if the bank does not answer, any other `ProtocolError` if it misbehaves.
    """
    message, asked = decode(data), sent.asked
    expect(
        message.address == _address(tables, sent).answer(), message, "not the answer to this query"
    )
    if isinstance(message, LiveRefusal):
        raise LiveRefusalError(message.reason)
    if not isinstance(message, LiveReply):
        raise ProtocolError(f"{sent.bank} answered a live query with a {message.kind}")
    offsets = tables.offsets[asked.account, asked.set]
    return bits_of(asked.placed, offsets, sent.rho, message.residues, tables.ring.plain_modulus)


def _address(tables: LiveTables, sent: Sent) -> Address:
    return Address(PAYMENT_NETWORK, sent.bank, tables.run_id, epoch=tables.epoch, index=sent.tick)
