"""Small complete cases: a forest, transactions, accounts at several banks, and the plain join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pv4fad.forest.config import ForestConfig, RandomShape
from pv4fad.forest.pairs import AccountIndex
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import BankCondition
from pv4fad.payments.schema import BENEFICIARY, ORDERING, SCHEMA

N_CLASSES = len(SCHEMA.record.classes)
ONE_SET = (
    BankCondition(ORDERING, ((0,),)),
    BankCondition(BENEFICIARY, ((0, 4, 6),)),
    BankCondition(BENEFICIARY, (tuple(range(N_CLASSES)),)),
)
TWO_SETS = (
    BankCondition(ORDERING, ((0,), (1, 2))),
    BankCondition(BENEFICIARY, ((0, 10), (3,))),
    BankCondition(BENEFICIARY, ((0, 1, 2, 3, 4), (5, 6, 7))),
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
    records: dict[tuple[int, int], int]

    def atoms(self, records: dict[tuple[int, int], int] | None = None) -> np.ndarray:
        """What a key finds: the record at its bank, or at any bank if the bank is unknown."""
        records = self.records if records is None else records
        anywhere = {bare: atom for (_, bare), atom in records.items()}
        return np.array(
            [
                anywhere.get(bare, -1) if bank == UNKNOWN else records.get((bank, bare), -1)
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
        n_atoms=N_CLASSES,
    )
    features = rng.integers(0, 4, (n_transactions, 4)).astype(np.float32)
    labels = (rng.random(n_transactions) < 0.4).astype(np.int8)
    forest = build_forest(config, ["a", "b", "c", "d"], features, seed)

    home = rng.integers(n_banks, size=n_bare)
    records = {}
    for bare in range(n_bare - 3):  # the last three are at no bank
        banks = range(n_banks) if bare < 3 else [int(home[bare])]
        for bank in banks:
            some_class = int(rng.integers(N_CLASSES))
            records[bank, bare] = some_class if rng.random() < 0.7 else 0
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
