"""What the payment network knows about the tables it asks about: places, slots, shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import OrderError
from pv4fad.forest.structure import Forest
from pv4fad.forest.votes import reached_groups
from pv4fad.protocol.match.network import opened_atoms
from pv4fad.protocol.match.state import MatchesInForce, PlacedTable
from pv4fad.protocol.parameters import Mode, RunParameters, TablePlan, table_epoch
from pv4fad.protocol.propose.state import StoredTrees
from pv4fad.protocol.score.inputs import ScoringInput
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.score.state import Codes, Slots
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.tables import AccountKey, account_key, hashed_id
from pv4fad.store.records import Records


class Tables:
    """The tables to score with: those of all matches in force."""

    def __init__(self, training: Records) -> None:
        self._training = training
        self._parameters: dict[int, RunParameters] = {
            epoch: parameters_of(training.of_epoch(epoch))
            for epoch in training.get(MatchesInForce).epochs
        }

    @cached_property
    def plans(self) -> list[TablePlan]:
        return [plan for match in self._parameters.values() for plan in match.tables]

    @property
    def banks(self) -> list[str]:
        return list(parameters_of(self._training).banks)

    @property
    def mode(self) -> Mode:
        return parameters_of(self._training).mode

    @property
    def metered(self) -> bool:
        return parameters_of(self._training).metered

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
            table = self._placed(plan)
            for account, place in zip(table.account_ids(), table.bins, strict=True):
                found[account] = (number, int(place))
        return found

    def _placed(self, plan: TablePlan) -> PlacedTable:
        records = self._training.of_epoch(table_epoch(plan.table_id))
        return records.get(PlacedTable, plan.table_id)

    def accounts(self) -> list[list[AccountKey]]:
        """The accounts of each match."""
        return [
            [
                account_key(account, broadcast=plan.broadcast)
                for plan in parameters.tables
                for account in self._placed(plan).account_ids()
            ]
            for parameters in self._parameters.values()
        ]

    def places_of(self, keys: Sequence[AccountKey]) -> NDArray[np.int64]:
        """(accounts, 2): number of the table, and bin."""
        places = [self.places.get(hashed_id(key)) for key in keys]
        if any(place is None for place in places):
            raise OrderError("some records are in no table: match them first")
        return np.array(places, np.int64).reshape(-1, 2)

    def slots(self, data: ScoringInput) -> Slots:
        """A place for every side that reaches a red group.

        Transactions of one account that reach the same groups get the same votes, so they share
        a place; otherwise the n-th goes to layer n.
        """
        place_of = self.places_of(data.keys)
        forest = stored_forest(self._training)
        rows, sides, groups = [], [], []
        for side in range(forest.sizes.n_sides):
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


def layer_content(forest: Forest, layers: range, table: int, batch: Records) -> LayerContent:
    slots = batch.get(Slots)
    here = (slots.table == table) & (slots.layer >= layers.start) & (slots.layer < layers.stop)
    codes = batch.get(Codes).codes[slots.transaction[here]]
    reached = np.full(codes.shape, -1, np.int32)
    for side in range(forest.sizes.n_sides):
        of_side = slots.side[here] == side
        reached[of_side] = reached_groups(forest, codes[of_side], side)
    return LayerContent(slots.layer[here] - layers.start, slots.bin[here], reached)


def opened_sets(
    forest: Forest, parameters: RunParameters, plan: TablePlan, bank: str, records: Records
) -> NDArray[np.uint32]:
    """u_c = Σ_{k in c} u_k of a table, (sets, bins)."""
    u, t = opened_atoms(plan, bank, records), parameters.plain_modulus
    sums = [u[list(atoms)].sum(axis=0, dtype=np.uint64) % t for atoms in forest.distinct_sets]
    return np.stack(sums).astype(np.uint32)


def stored_forest(training: Records) -> Forest:
    return training.get(StoredTrees).trees().forest
