"""Two small federations with the same public sizes, to be told apart.

In the first world the payment network's accounts are those of the banks, and all count in one
place; in the second no bank has any of them, and they are spread.  In the first the payment
network asks about its accounts, in the second about none.  Model, counted sets, noise and the way
of the answers are those of the run that is attacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.evidence.cells import CountedAccounts, n_cells
from pv4fad.evidence.classes import counted_sets
from pv4fad.forest.pairs import AccountIndex, CountConfig, choose_pairs, green_labels, group_counts
from pv4fad.forest.paper import paper_forest
from pv4fad.forest.random_trees import build_forest
from pv4fad.hashing.keyed import tree_of
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, Trees, run_parameters
from pv4fad.protocol.score.inputs import AskedSet, Round, ScoringInput
from pv4fad.protocol.tables import AccountKey, TableAccounts, assign_tables
from pv4fad.schema import KEY_SEPARATOR, Schema

BANKS = {"AAAADE01": "bank01", "AAAADE02": "bank02"}
ACCOUNTS = 60
"""Of each bank; in a run with a table for all banks, a third of them is in that."""
_TREES, _HEIGHT, _LAYERS = 2, 2, 4


@dataclass(frozen=True)
class SmallWorld:
    """What each party brings."""

    parameters: RunParameters
    training: TrainingInput = field(repr=False)
    records: Mapping[str, BankRecords] = field(repr=False)
    questions: Round | ScoringInput = field(repr=False)


@dataclass(frozen=True)
class Like:
    """A run to make small worlds of."""

    schema: Schema
    parameters: RunParameters

    @property
    def broadcast(self) -> bool:
        return any(plan.broadcast for plan in self.parameters.tables)

    def world(self, *, is_second: bool) -> SmallWorld:
        """One of the two worlds."""
        keys = [key for bank in range(len(BANKS)) for key in self._keys(bank, is_second)]
        asked = [] if is_second else self._askable(keys)
        run, payments = self.parameters, None
        if run.mode == "counts":
            training = self._cells(keys, is_second)
        else:
            training, payments = self._trees(keys, is_second)
        parameters = run_parameters(
            training,
            dict.fromkeys(BANKS.values(), ACCOUNTS),
            self.schema,
            bound=1,
            epsilon=run.exact_epsilon,
            noise=run.noise,
            honest_banks=min(run.honest_banks, len(BANKS)),
            mode=run.mode,
            counted=run.counted,
            absent=run.absent,
            metered=run.metered,
        )
        questions: Round | ScoringInput
        if payments is not None and run.mode == "sealed":
            (codes, key_of), n = payments, len(asked)
            questions = ScoringInput(codes[:n], asked, key_of[:n], _LAYERS)
        else:
            about = AskedSet((parameters.sizes.n_atoms - 1,), absent=False)
            questions = Round(asked, (about,), np.zeros(len(asked), np.int64))
        records = {bank: self._records(number) for number, bank in enumerate(BANKS.values())}
        return SmallWorld(parameters, training, records, questions)

    def _cells(self, keys: list[AccountKey], is_second: bool) -> TrainingInput:
        sets, absent = self.parameters.counted, self.parameters.absent
        if sets is None or absent is None:
            raise ParameterError("the run counts no classes")
        numbers, cells = np.arange(len(keys)), n_cells(self.schema.n_sides)
        cell = numbers % cells if is_second else np.zeros_like(numbers)
        counts = cell_counts(CountedAccounts(cell, numbers, numbers, cells))
        counted = counted_sets(sets, absent, len(self.schema.record.kind_names))
        return TrainingInput(counts, (counted,) * cells, self._tables(keys, 1))

    def _trees(
        self, keys: list[AccountKey], is_second: bool
    ) -> tuple[TrainingInput, tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """With one payment for each account: the leaves that it reaches, and its accounts."""
        n, n_sides = len(keys), self.schema.n_sides
        config = paper_forest(
            _TREES, _HEIGHT, n_atoms=len(self.schema.record.classes), listed=(1,) * n_sides
        )
        everywhere = np.random.default_rng(0).random((n, 2), np.float32)
        forest = build_forest(config, ["a", "b"], everywhere, 0)
        codes = forest.route(everywhere if is_second else np.zeros_like(everywhere))
        labels = np.full(n, 0 if is_second else 1, np.int8)
        key_of = (np.arange(n)[:, np.newaxis] + np.arange(n_sides)) % n
        trees = tree_of([bare.encode() for _, bare in keys], _TREES)
        accounts = AccountIndex(key_of, np.arange(n), trees)
        rng = np.random.default_rng(0)
        pairs = choose_pairs(forest, codes, labels, accounts, config=CountConfig(bound=1), rng=rng)
        training = TrainingInput(
            group_counts(forest, pairs, n),
            tuple(group.sets for group in forest.groups),
            self._tables(keys, _TREES),
            Trees(forest, green_labels(forest, codes, labels)),
        )
        return training, (codes, key_of)

    def _tables(self, keys: list[AccountKey], n_trees: int) -> dict[str, TableAccounts]:
        return assign_tables(keys, BANKS, n_trees, broadcast=self.broadcast)

    def _keys(self, bank: int, is_second: bool) -> list[AccountKey]:
        bic, first = list(BANKS)[bank], ACCOUNTS * is_second
        ids = [_id(bank, number) for number in range(first, first + ACCOUNTS)]
        n_routed = ACCOUNTS - ACCOUNTS // 3 * self.broadcast
        return [(bic, one) for one in ids[:n_routed]] + [(None, one) for one in ids[n_routed:]]

    def _askable(self, keys: list[AccountKey]) -> list[AccountKey]:
        """Metered, the aggregator may know how many answers are positive: there are none."""
        if not self.parameters.metered:
            return keys
        n_classes = len(self.schema.record.classes)
        return [key for key in keys if key[0] is not None and int(key[1][-4:]) % n_classes == 0]

    def _records(self, bank: int) -> BankRecords:
        bic, ids = list(BANKS)[bank], [_id(bank, number) for number in range(ACCOUNTS)]
        return BankRecords(
            tuple(f"{bic}{KEY_SEPARATOR}{one}".encode() for one in ids),
            tuple(one.encode() for one in ids),
            (np.arange(ACCOUNTS) % len(self.schema.record.classes)).astype(np.int16),
            self.schema,
            "lab",
        )


def _id(bank: int, number: int) -> str:
    """Of a record; no two banks have the same."""
    return f"{bank}{number:04d}"
