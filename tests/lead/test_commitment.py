"""The commitment is to the data, the settings, the model, and each account, cell, set and tree."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.small_federation import records_of

from pv4fad.lead.counted import counted_digest
from pv4fad.lead.data import bank_directory
from pv4fad.lead.prepare import TrainingRecord, prepare_payment_network
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.propose.inputs import TrainingInput

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
def test_another_account_cell_set_or_table_is_another_digest(inputs, model, change):
    data = inputs[model]
    assert counted_digest(change(data)) != counted_digest(data)


def test_other_trees_are_another_digest(inputs):
    data = inputs["paper"]
    names = tuple(f"{name}?" for name in data.trees.forest.feature_names)
    other = replace(data.trees, forest=replace(data.trees.forest, feature_names=names))
    assert counted_digest(replace(data, trees=other)) != counted_digest(data)
    assert counted_digest(replace(data, trees=None)) != counted_digest(data)


def test_the_order_of_tables_does_not_matter(inputs):
    data = inputs["evidence"]
    again = replace(data, tables=dict(reversed(data.tables.items())))
    assert counted_digest(again) == counted_digest(data)


RECORD = TrainingRecord(
    settings=SETTINGS["evidence"],
    data_schema=SCHEMA,
    seed=7,
    nonce="01" * 32,
    transactions="ab",
    directory={"BANKDE": "bank01"},
    counted="cd",
    model="ef",
)
OTHER = {
    "settings": SETTINGS["paper"],
    "data_schema": SCHEMA.model_copy(update={"name": "other"}),
    "seed": 8,
    "nonce": "02" * 32,
    "transactions": "aa",
    "directory": {"BANKDE": "bank02"},
    "counted": "cc",
    "model": "ee",
    "alert_labels": RECORD.alert_labels.model_copy(
        update={next(iter(type(RECORD.alert_labels).model_fields)): 1}
    ),
}


def test_every_part_of_the_record_changes_the_commitment():
    assert set(OTHER) == set(TrainingRecord.model_fields)
    changed = [RECORD.model_copy(update={name: value}) for name, value in OTHER.items()]
    assert len({one.commitment for one in (RECORD, *changed)}) == 1 + len(OTHER)
    assert RECORD.model_copy().commitment == RECORD.commitment
