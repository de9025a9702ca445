"""The commitment is to what is counted: with another account, cell, set or tree it is another."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.small_federation import records_of

from pv4fad.errors import ParameterError
from pv4fad.lead.data import bank_directory
from pv4fad.lead.prepare import commitment, prepare_payment_network
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.propose.inputs import TrainingInput

NONCE = bytes(range(32))
SETTINGS = {
    "evidence": TrainingSettings(epsilon="1"),
    "paper": TrainingSettings(epsilon="1", model="paper", trees=3, height=3),
}


@pytest.fixture(scope="module")
def inputs(tables):
    directory = bank_directory(records_of(tables.accounts, "bank01", "bank02"))
    data = LeadData(SCHEMA, tables.train.transactions, directory)
    return {
        model: prepare_payment_network(data, one, 7).training for model, one in SETTINGS.items()
    }


def other_account(data: TrainingInput) -> TrainingInput:
    """The same number of accounts in every cell, one of them another one."""
    key = data.counts.key.copy()
    unused = np.setdiff1d(np.arange(key.max() + 1), key)
    key[0] = unused[0] if len(unused) else key.max() + 1
    return replace(data, counts=replace(data.counts, key=key))


def other_cell(data: TrainingInput) -> TrainingInput:
    start = data.counts.start.copy()
    start[np.flatnonzero(np.diff(start))[-1]] += 1
    return replace(data, counts=replace(data.counts, start=start))


def other_weight(data: TrainingInput) -> TrainingInput:
    weight = data.counts.weight.copy()
    weight[-1] += 1
    return replace(data, counts=replace(data.counts, weight=weight))


def other_total(data: TrainingInput) -> TrainingInput:
    n_path = data.counts.n_path.copy()
    n_path[-1] += 1
    return replace(data, counts=replace(data.counts, n_path=n_path))


def other_set(data: TrainingInput) -> TrainingInput:
    (first, *more), *others = data.sets
    return replace(data, sets=(((*first, 9), *more), *others))


def other_table(data: TrainingInput) -> TrainingInput:
    """An account moves from one table to the other."""
    one, two = data.tables["bank01"], data.tables["bank02"]
    tables = {
        "bank01": replace(one, ids=one.ids[:-1], trees=one.trees[:-1], keys=one.keys[:-1]),
        "bank02": replace(
            two,
            ids=(*two.ids, one.ids[-1]),
            trees=np.append(two.trees, one.trees[-1]),
            keys=np.append(two.keys, one.keys[-1]),
        ),
    }
    return replace(data, tables=tables)


def other_id(data: TrainingInput) -> TrainingInput:
    one = data.tables["bank01"]
    changed = replace(one, ids=(*one.ids[:-1], one.ids[-1] + b"0"))
    return replace(data, tables=data.tables | {"bank01": changed})


def others_number(data: TrainingInput) -> TrainingInput:
    """Two accounts change places: one is counted as the other should be."""
    one = data.tables["bank01"]
    keys = one.keys.copy()
    keys[[0, 1]] = keys[[1, 0]]
    return replace(data, tables=data.tables | {"bank01": replace(one, keys=keys)})


CHANGES = (
    other_account, other_cell, other_weight, other_total, other_set, other_table, other_id,
    others_number,
)  # fmt: skip


@pytest.mark.parametrize("model", SETTINGS)
@pytest.mark.parametrize("change", CHANGES)
def test_another_account_cell_set_or_table_is_another_commitment(inputs, model, change):
    data = inputs[model]
    assert commitment(change(data), NONCE) != commitment(data, NONCE)


def test_other_trees_are_another_commitment(inputs):
    data = inputs["paper"]
    names = tuple(f"{name}?" for name in data.trees.forest.feature_names)
    other = replace(data.trees, forest=replace(data.trees.forest, feature_names=names))
    assert commitment(replace(data, trees=other), NONCE) != commitment(data, NONCE)
    assert commitment(replace(data, trees=None), NONCE) != commitment(data, NONCE)


def test_the_same_data_opens_it_and_another_nonce_hides_it(inputs):
    data = inputs["evidence"]
    again = replace(data, tables=dict(reversed(data.tables.items())))
    assert commitment(again, NONCE) == commitment(data, NONCE)
    assert commitment(data, NONCE[::-1]) != commitment(data, NONCE)
    with pytest.raises(ParameterError, match="nonce of 32 bytes"):
        commitment(data, b"short")
