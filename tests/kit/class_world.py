"""Whole federations in memory for the default model: accounts with classes, counted in cells.

Ids at no bank, at a bank that is not asked, at several; institutions that take no part; with
`mode` broadcast or mixed, accounts whose bank is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from tests.kit.forest_case import OUTSIDER, UNKNOWN
from tests.kit.world import (
    BICS,
    OUTSIDER_BIC,
    RestartableBank,
    bank_name,
    bare_id,
    make_federation,
)

from pv4fad.evidence.cells import CountedAccounts, n_cells
from pv4fad.evidence.classes import counted_sets
from pv4fad.evidence.trusted import trusted_bits, trusted_counts
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.lead.federation import Federation
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.protocol.score.inputs import AskedSet, Round
from pv4fad.protocol.tables import AccountKey, assign_tables
from pv4fad.schema import Schema
from pv4fad.store.records import stored

MODES = ("routed", "broadcast", "mixed")
BIC_OF = {UNKNOWN: None, OUTSIDER: OUTSIDER_BIC} | dict(enumerate(BICS))


@dataclass
class ClassWorld:
    """Parties, and all that a trusted third party would know."""

    keys: list[tuple[int, int]]  # bank or UNKNOWN or OUTSIDER, bare id
    records: dict[tuple[int, int], int]  # (bank, bare id) → atom, −1 for one that is not provided
    counted: CountedAccounts
    data: TrainingInput
    federation: Federation
    parameters: RunParameters
    schema: Schema = SCHEMA

    def train(self, observer=None) -> None:
        self.federation.train(self.parameters, self.data, observer)

    @property
    def account_keys(self) -> list[AccountKey]:
        return [(BIC_OF[bank], bare_id(bare)) for bank, bare in self.keys]

    def atoms(self) -> np.ndarray:
        """The atom of the record that each account finds, by a plain look-up."""
        return np.array([self._atom(*key) for key in self.keys])

    def _atom(self, bank: int, bare: int) -> int:
        if bank != UNKNOWN:
            return self.records.get((bank, bare), -1)
        return max((atom for (_, b), atom in self.records.items() if b == bare), default=-1)

    def bank_records(self, bank: int) -> BankRecords:
        """The account file of a bank."""
        return class_records(self.records, bank, self.schema, self.parameters.absent)

    def true_counts(self) -> np.ndarray:
        return trusted_counts(self.counted, self.atoms(), self.data.sets[0])

    def counts(self) -> np.ndarray:
        """As the payment network has them after training."""
        return self.federation.payment_network.counts(self.parameters.run_id)

    def ask(self, accounts: np.ndarray, asked: AskedSet, observer=None) -> np.ndarray:
        """One round about some accounts."""
        questions = self.round(accounts, asked)
        return self.federation.ask(self.parameters.run_id, questions, observer)

    def round(self, accounts: np.ndarray, asked: AskedSet) -> Round:
        keys = [self.account_keys[account] for account in accounts]
        return Round(keys, (asked,), np.zeros(len(keys), np.int64))

    def true_bits(self, accounts: np.ndarray, asked: AskedSet) -> np.ndarray:
        return trusted_bits(self.atoms()[accounts], asked.atoms, absent=asked.absent)

    def record(self, party, kind, *place, epoch: int = 0):
        """A record of a party."""
        return stored(party.store, self.parameters.run_id, kind, *place, epoch=epoch)


def make_class_world(
    seed: int = 0,
    *,
    n_banks: int = 2,
    mode: str = "routed",
    counted: str = "fine",
    absent: str = "class",
    epsilon: Epsilon = "none",
    honest_banks: int = 1,
    bank_class: type[RestartableBank] = RestartableBank,
    n_bare: int = 40,
    n_new: int = 0,
    schema: Schema = SCHEMA,
    metered: bool = False,
    **parties,
) -> ClassWorld:
    """`n_new`: of the accounts, how many training does not know."""
    rng = np.random.default_rng(seed)
    atoms = sorted(set(schema.atom_of_class(absent)))
    records = {
        (bank, bare): atoms[rng.integers(len(atoms))]
        for bank in range(n_banks)
        for bare in range(n_bare)
        if rng.random() < 0.6 and (mode == "routed" or bare % n_banks == bank)
    }
    keys = sorted((_home(bare, n_banks, mode, rng), bare) for bare in range(n_bare))
    known = np.flatnonzero([bare < n_bare - n_new for _, bare in keys])
    inside = np.array([number for number in known if keys[number][0] != OUTSIDER])
    cells = n_cells(schema.n_sides)
    choice = CountedAccounts(rng.integers(0, cells, len(inside)), inside, inside, cells)
    tables = assign_tables(
        [(BIC_OF[bank], bare_id(bare)) for bank, bare in (keys[number] for number in known)],
        {BICS[bank]: bank_name(bank) for bank in range(n_banks)},
        1,
        broadcast=mode != "routed",
    )
    tables = {name: replace(one, keys=known[one.keys]) for name, one in tables.items()}
    if mode == "broadcast":
        tables = {"broadcast": tables["broadcast"]}
    sets = counted_sets(counted, absent, len(schema.record.kind_names))
    data = TrainingInput(cell_counts(choice), (sets,) * cells, tables)
    of_banks = [class_records(records, bank, schema, absent) for bank in range(n_banks)]
    parameters = run_parameters(
        data,
        {bank_name(bank): len(one.bare_ids) for bank, one in enumerate(of_banks)},
        schema,
        bound=1,
        epsilon=epsilon,
        noise="none" if epsilon == "none" else "distributed",
        honest_banks=honest_banks,
        mode="counts",
        counted=counted,
        absent=absent,
        metered=metered,
    )
    federation = make_federation(of_banks, parameters, bank_class=bank_class, **parties)
    return ClassWorld(keys, records, choice, data, federation, parameters, schema)


def _home(bare: int, n_banks: int, mode: str, rng: np.random.Generator) -> int:
    if mode == "broadcast":
        return UNKNOWN
    if rng.random() < 0.15:
        return OUTSIDER
    return UNKNOWN if mode == "mixed" and rng.random() < 0.4 else int(rng.integers(n_banks))


def class_records(
    records: dict[tuple[int, int], int], bank: int, schema: Schema, absent: str
) -> BankRecords:
    """The class of a record is some class that has its atom."""
    class_of = schema.atom_of_class(absent).index
    mine = sorted((bare, atom) for (owner, bare), atom in records.items() if owner == bank)
    ids = [bare_id(bare).encode() for bare, _ in mine]
    return BankRecords(
        tuple(BICS[bank].encode() + b"|" + one for one in ids),
        tuple(ids),
        np.array([class_of(atom) for _, atom in mine], np.int16),
        schema,
        f"version 1 of {bank_name(bank)}",
    )


@cache
def trained_class_world(*, seed: int, **options) -> ClassWorld:
    """One training for all tests that only ask; the same options in the same order."""
    world = make_class_world(seed, **options)
    world.train()
    return world


ONE = Fraction(1)
