"""What the payment network knows about the tables it asks about: places, slots, shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.forest.forest_file import from_document
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import Side
from pv4fad.forest.votes import reached_groups
from pv4fad.he.ring import Ring
from pv4fad.protocol.parameters import RunParameters, TablePlan, table_epoch
from pv4fad.protocol.run_records import RunRecords
from pv4fad.protocol.score.inputs import ScoringInput
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.tables import AccountKey, account_key, hashed_id


@dataclass(frozen=True)
class Slots:
    """Where each transaction side that asks a bank has its place; arrays of equal length."""

    transaction: NDArray[np.int64] = field(repr=False)
    side: NDArray[np.int8] = field(repr=False)
    table: NDArray[np.int64] = field(repr=False)  # number in the list of tables
    bin: NDArray[np.int64] = field(repr=False)
    layer: NDArray[np.int64] = field(repr=False)


class Tables:
    """The tables to score with: those of all matches in force."""

    def __init__(self, training: RunRecords) -> None:
        self._training = training
        self._parameters: dict[int, RunParameters] = {
            epoch: training.of_epoch(epoch).parameters() for epoch in training.get_json("matches")
        }

    @cached_property
    def plans(self) -> list[TablePlan]:
        return [plan for one in self._parameters.values() for plan in one.tables]

    @property
    def banks(self) -> list[str]:
        return list(self._training.parameters().banks)

    @property
    def mode(self) -> str:
        return self._training.parameters().mode

    def plan(self, table_id: str) -> TablePlan:
        """A table by its id."""
        for plan in self.plans:
            if plan.table_id == table_id:
                return plan
        raise OrderError(f"table {table_id} is not in use")

    def parameters(self, plan: TablePlan) -> RunParameters:
        """The parameters of the match that made a table."""
        return self._parameters[table_epoch(plan.table_id)]

    def scoring(self, plan: TablePlan) -> ScoringPlan:
        """The shapes of messages about a table."""
        return ScoringPlan(self.parameters(plan))

    @cached_property
    def places(self) -> dict[bytes, tuple[int, int]]:
        """Where each account is: number of the table, and bin."""
        found: dict[bytes, tuple[int, int]] = {}
        for number, plan in enumerate(self.plans):
            records = self._training.of_epoch(table_epoch(plan.table_id))
            bins = records.get_arrays(f"table/{plan.table_id}")["bins"]
            ids = self._ids(plan)
            found |= {one: (number, int(place)) for one, place in zip(ids, bins, strict=True)}
        return found

    def _ids(self, plan: TablePlan) -> list[bytes]:
        raw = self._training.of_epoch(table_epoch(plan.table_id)).get(f"ids/{plan.table_id}")
        return raw.split(b"\n") if raw else []

    def accounts(self) -> list[list[AccountKey]]:
        """The accounts of each match."""
        return [
            [
                account_key(one, broadcast=plan.broadcast)
                for plan in parameters.tables
                for one in self._ids(plan)
            ]
            for parameters in self._parameters.values()
        ]

    def places_of(self, keys: Sequence[AccountKey]) -> NDArray[np.int64]:
        """(accounts, 2): number of the table, and bin."""
        places = [self.places.get(hashed_id(key)) for key in keys]
        if any(place is None for place in places):
            raise OrderError("some accounts are in no table: match them first")
        return np.array(places, np.int64).reshape(-1, 2)

    def slots(self, data: ScoringInput) -> Slots:
        """A place for every side that reaches a red group.

        Transactions of one account that reach the same groups get the same votes, so they share
        a place; otherwise the n-th goes to layer n.
        """
        place_of = self.places_of(data.keys)
        forest = stored_forest(self._training)
        rows, sides, groups = [], [], []
        for side in Side:
            reached = reached_groups(forest, data.codes, side)
            asked = np.flatnonzero((reached >= 0).any(axis=1))
            rows.append(asked)
            sides.append(np.full(len(asked), side, np.int8))
            groups.append(reached[asked])
        transaction, side_of = np.concatenate(rows), np.concatenate(sides)
        table, place = place_of[data.key_of[transaction, side_of]].T
        layer = layers_of(table, place, np.concatenate(groups))
        return Slots(transaction, side_of, table, place, layer)


def layers_of(
    table: NDArray[np.int64], place: NDArray[np.int64], reached: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Which of the different rows of `reached` in its bin each side has."""
    bins = {"table": table, "bin": place}
    groups = {f"tree {tree}": column for tree, column in enumerate(reached.T)}
    sides = pl.DataFrame(bins | groups).with_row_index("number")
    first_alike = sides.select(pl.col("number").first().over([*bins, *groups])).to_series()
    first = sides.filter(pl.col("number") == first_alike)
    layer = np.zeros(len(table), np.int64)
    layer[first["number"]] = first.select(pl.int_range(pl.len()).over(*bins)).to_series()
    found: NDArray[np.int64] = layer[first_alike.to_numpy()]
    return found


@dataclass(frozen=True)
class LayerContent:
    """The transaction sides in some layers of a table."""

    layer: NDArray[np.int64] = field(repr=False)
    bin: NDArray[np.int64] = field(repr=False)
    reached: NDArray[np.int32] = field(repr=False)  # (sides, trees)


def layer_content(forest: Forest, layers: range, table: int, batch: RunRecords) -> LayerContent:
    slots = Slots(**batch.get_arrays("slots"))
    here = (slots.table == table) & (slots.layer >= layers.start) & (slots.layer < layers.stop)
    codes = batch.get_arrays("codes")["codes"][slots.transaction[here]]
    side = slots.side[here]
    reached = np.full(codes.shape, -1, np.int32)
    for one in Side:
        reached[side == one] = reached_groups(forest, codes[side == one], one)
    return LayerContent(slots.layer[here] - layers.start, slots.bin[here], reached)


class ShareBlocks:
    """E_j[s_k] of a table, by block of the share ring."""

    def __init__(
        self, parameters: RunParameters, plan: TablePlan, bank: str, records: RunRecords
    ) -> None:
        share = Ring.of(parameters.share_ring)
        self._size = share.ciphertext_bytes(parameters.share_ring.n_data_primes)
        self._halves = parameters.match_ring.degree // share.degree
        self._n_atoms = parameters.sizes.n_atoms
        self._name = f"shares/{bank}/{plan.table_id}"
        self._records = records

    def of_block(self, share_block: int) -> tuple[bytes, ...]:
        """E_j[s_k] for each atom k."""
        block, half = divmod(share_block, self._halves)
        data = self._records.get(f"{self._name}/{block}")
        positions = [k * self._halves + half for k in range(self._n_atoms)]
        return tuple(data[i * self._size : (i + 1) * self._size] for i in positions)


def opened_atoms(plan: TablePlan, bank: str, records: RunRecords) -> NDArray[np.uint32]:
    """u_k of a table, (atoms, bins)."""
    blocks = range(plan.layout.n_blocks)
    return np.concatenate(
        [records.get_arrays(f"opened/{bank}/{plan.table_id}/{b}")["u"] for b in blocks], axis=1
    )


def opened_sets(
    forest: Forest, parameters: RunParameters, plan: TablePlan, bank: str, records: RunRecords
) -> NDArray[np.uint32]:
    """u_c = Σ_{k in c} u_k of a table, (sets, bins)."""
    u, t = opened_atoms(plan, bank, records), parameters.plain_modulus
    sums = [u[list(atoms)].sum(axis=0, dtype=np.uint64) % t for atoms in forest.distinct_sets]
    return np.stack(sums).astype(np.uint32)


def stored_forest(training: RunRecords) -> Forest:
    return from_document(training.get_json("forest"))
