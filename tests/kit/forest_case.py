"""Small complete cases: a forest, transactions, accounts at several banks, and the plain join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pv4fad.forest.config import ConditionConfig, ForestConfig, RandomShape
from pv4fad.forest.pairs import AccountIndex
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.structure import Forest

ONE_SET = (
    ConditionConfig(side="ordering", sets=(("00",),)),
    ConditionConfig(side="beneficiary", sets=(("00", "05", "07"),)),
    ConditionConfig(side="beneficiary", sets=(("present",),)),
)
TWO_SETS = (
    ConditionConfig(side="ordering", sets=(("00",), ("01", "03"))),
    ConditionConfig(side="beneficiary", sets=(("00", "11"), ("04",))),
    ConditionConfig(side="beneficiary", family="risk", sets=(("no",), ("yes",))),
)
OUTSIDER = -1  # an institution that takes no part
UNKNOWN = -2  # the payment network does not know the bank: asked of all


@dataclass(frozen=True)
class Case:
    """Everything in one place; `keys[k]` is (bank, bare id) and `records` what banks hold."""

    forest: Forest
    features: np.ndarray
    labels: np.ndarray
    codes: np.ndarray
    accounts: AccountIndex
    keys: list[tuple[int, int]]
    records: dict[tuple[int, int], tuple[int, ...]]

    def atoms(self, records: dict[tuple[int, int], tuple[int, ...]] | None = None) -> np.ndarray:
        """What a key finds: the record at its bank, or at any bank if the bank is unknown."""
        records = self.records if records is None else records
        absent = (-1,) * len(self.forest.schema.families)
        anywhere = {bare: atoms for (_, bare), atoms in records.items()}
        return np.array(
            [
                anywhere.get(bare, absent) if bank == UNKNOWN else records.get((bank, bare), absent)
                for bank, bare in self.keys
            ]
        )


def make_case(
    seed: int,
    *,
    n_sets: int = 1,
    n_banks: int = 3,
    n_transactions: int = 120,
    n_bare: int = 15,
    n_trees: int = 3,
) -> Case:
    """A forest and data full of special cases.

    Some ids are at several banks; some are absent everywhere, sent to a wrong bank, to an
    outsider, or to an unknown bank (then the id is at one bank only); some pay themselves.
    """
    rng = np.random.default_rng(seed)
    config = ForestConfig(
        n_trees=n_trees,
        shape=RandomShape(height=3, conditions=ONE_SET if n_sets == 1 else TWO_SETS),
        slots=("risk",),
    )
    features = rng.integers(0, 4, (n_transactions, 4)).astype(np.float32)
    labels = (rng.random(n_transactions) < 0.4).astype(np.int8)
    forest = build_forest(config, ["a", "b", "c", "d"], features, seed)

    schema = forest.schema
    home = rng.integers(n_banks, size=n_bare)
    records = {}
    for bare in range(n_bare - 3):  # the last three are at no bank
        banks = range(n_banks) if bare < 3 else [int(home[bare])]
        for bank in banks:
            records[bank, bare] = tuple(
                int(rng.integers(schema.offsets[family], schema.offsets[family + 1]))
                for family in range(len(schema.families))
            )
    keys = [(bank, bare) for bare in range(n_bare) for bank in (*range(n_banks), OUTSIDER)]
    keys += [(UNKNOWN, bare) for bare in range(3, n_bare)]
    number = {key: index for index, key in enumerate(keys)}

    def draw_key() -> int:
        bare = int(rng.integers(n_bare))
        how = rng.random()
        if how < 0.1:
            return number[OUTSIDER, bare]
        if how < 0.2:
            return number[int(rng.integers(n_banks)), bare]
        if how < 0.35 and bare >= 3:
            return number[UNKNOWN, bare]
        return number[int(home[bare]), bare]

    ordering = [draw_key() for _ in range(n_transactions)]
    beneficiary = [key if rng.random() < 0.07 else draw_key() for key in ordering]
    accounts = AccountIndex(
        key_of=np.array([ordering, beneficiary]).T,
        bare_of=np.array([bare for _, bare in keys]),
        tree_of=rng.integers(config.n_trees, size=n_bare),
    )
    codes = forest.route(features)
    return Case(forest, features, labels, codes, accounts, keys, records)
