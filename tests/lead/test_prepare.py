"""What each party brings follows from its own data, and from nobody else's."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.kit.small_federation import records_of

from pv4fad.errors import DataError
from pv4fad.evidence.cells import n_cells, n_hit_cells
from pv4fad.evidence.classes import counted_sets
from pv4fad.forest.forest_file import to_document
from pv4fad.hashing.keyed import tree_of
from pv4fad.lead.data import bank_directory, bank_records, records_fingerprint
from pv4fad.lead.prepare import prepare_payment_network
from pv4fad.lead.rows import LeadData, account_index
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import FLAG_CODES, SCHEMA
from pv4fad.schema import schema_of
from pv4fad.tables.sides import Sides

EVIDENCE = TrainingSettings(epsilon="1")
PAPER = TrainingSettings(epsilon="1", model="paper", trees=5, height=4)
MODELS = {"evidence": EVIDENCE, "paper": PAPER}
N_CELLS, N_HIT_CELLS = n_cells(SCHEMA.n_sides), n_hit_cells(SCHEMA.n_sides)


@pytest.fixture
def transactions(tables):
    return tables.train.transactions


@pytest.fixture(scope="module")
def records(tables):
    return records_of(tables.accounts, "bank01", "bank02")


@pytest.fixture
def directory(records):
    return bank_directory(records)


@pytest.fixture
def data(transactions, directory):
    return LeadData(SCHEMA, transactions, directory)


def test_accounts_are_numbered_as_a_plain_loop_would_read_them(transactions):
    sides = Sides(SCHEMA, transactions)
    of_sides = sides.side_keys()
    keys, index = account_index(sides, 7)
    rows = list(keys.iter_rows())
    assert len(set(rows)) == len(rows)
    for side, of_side in enumerate(of_sides):
        assert [rows[key] for key in index.key_of[:, side]] == of_side.rows()
    tree = index.tree_of[index.bare_of]
    assert (tree == tree_of([account.encode() for _, account in rows], 7)).all()


def test_an_account_of_an_unknown_bank_has_a_key_of_its_own():
    sides = {name: {"id": name, "holder": f"At{name}"} for name in ("Payer", "Payee")}
    schema = schema_of(
        {
            "name": "transfers",
            "rows": {"id": "Number", "time": "Time"},
            "sides": sides,
            "record": {"classes": ["ordinary", "watch"]},
        }
    )
    at = [None, "AAAADEFF"]
    rows = pl.DataFrame(
        {"Payer": ["X", "X"], "AtPayer": at, "Payee": ["X", "X"], "AtPayee": at[::-1]}
    )
    keys, index = account_index(Sides(schema, rows), 1)
    assert list(keys.iter_rows()) == [(None, "X"), ("AAAADEFF", "X")]
    assert index.key_of.tolist() == [[0, 1], [1, 0]]
    assert index.bare_of.tolist() == [0, 0]


@pytest.fixture(scope="module")
def prepared(tables, records):
    """By model; as often as asked for, it is prepared once."""
    known = LeadData(SCHEMA, tables.train.transactions, bank_directory(records))

    @cache
    def of(model: str, seed: int = 1):
        return prepare_payment_network(known, MODELS[model], seed)

    return of


@pytest.mark.parametrize("model", MODELS)
def test_every_account_is_in_one_table_also_those_of_who_takes_no_part(prepared, directory, model):
    found = prepared(model)
    tables = found.training.tables
    assert set(tables) == {"bank01", "bank02"}
    numbers = np.concatenate([table.keys for table in tables.values()])
    assert sorted(numbers) == list(range(found.keys.height))
    outsiders = ~found.keys["Holder"].is_in(list(directory))
    assert outsiders.any()


# The default model.


def test_every_account_of_the_federation_counts_once_and_no_other(prepared, directory):
    """Bound 1, over all cells, labels and sides, for a bare id; outsiders never count."""
    found = prepared("evidence")
    counts, keys = found.training.counts, found.keys
    counted = keys[counts.key.tolist()]
    assert counts.weight.tolist() == [1] * len(counts.key)
    assert counted["Id"].n_unique() == counted.height
    inside = keys.filter(pl.col("Holder").is_in(list(directory)))
    assert set(counted["Id"]) == set(inside["Id"])
    assert counted["Holder"].is_in(list(directory)).all()
    assert set(keys["Id"]) - set(counted["Id"]), "there are no outsiders"


def test_accounts_count_in_the_cell_that_a_plain_loop_finds(prepared, transactions):
    found = prepared("evidence")
    counts = found.training.counts
    rows = list(
        zip(
            *(transactions[c] for c in ("OrderingAccount", "BeneficiaryAccount", "Label")),
            strict=False,
        )
    )
    hits = {account for *sides, label in rows for account in sides if label == 1}
    dealt: list[dict[str, set[str]]] = [{}, {}]
    for *sides, label in rows:
        if label == 0:
            for side in (0, 1):
                dealt[side].setdefault(sides[side], set()).add(sides[1 - side])
    bare = found.keys["Id"]
    assert len(counts.start) == N_CELLS + 1
    for cell in range(N_CELLS):
        hit, stratum = cell < N_HIT_CELLS, cell % 3
        side = cell // 6 if hit else (cell - N_HIT_CELLS) // 3
        for key in counts.of_group(cell)[0]:
            account = bare[int(key)]
            others = len(dealt[side].get(account, ())) - (not hit)
            assert (account in hits) == hit
            assert stratum == (others > 0) + (others > 3)
    assert all(counts.n_path[part].sum() > 0 for part in (slice(0, 12), slice(12, 18)))
    assert counts.n_path.tolist() == np.diff(counts.start).tolist()


@pytest.mark.parametrize(("sets", "absent"), [("fine", "class"), ("coarse", "ordinary")])
def test_the_sets_that_are_counted_are_those_of_the_settings(data, sets, absent):
    settings = TrainingSettings(epsilon="1", sets=sets, absent=absent)
    found = prepare_payment_network(data, settings, 1)
    assert found.training.sets == (counted_sets(sets, absent, 2),) * N_CELLS


def test_the_seed_decides_which_payment_of_an_account_counts(prepared):
    first, other = prepared("evidence", 1), prepared("evidence", 2)
    again = prepared.__wrapped__("evidence", 1)
    assert again is not first
    assert again.training.counts.start.tolist() == first.training.counts.start.tolist()
    assert again.training.counts.key.tolist() == first.training.counts.key.tolist()
    assert again.own.local.to_bytes() == first.own.local.to_bytes()
    assert other.training.counts.start.tolist() != first.training.counts.start.tolist()
    assert sorted(other.training.counts.key) == sorted(first.training.counts.key)


# The paper's model.


def test_the_seed_decides_trees_and_sampling_and_nothing_public(prepared):
    first, again, other = (
        prepared("paper", 1), prepared.__wrapped__("paper", 1), prepared("paper", 2),
    )  # fmt: skip
    trees = [to_document(one.trees.forest) for one in (first, again, other)]
    assert trees[0] == trees[1] != trees[2]
    assert (first.pairs.transaction == again.pairs.transaction).all()
    assert first.pairs.transaction.tolist() != other.pairs.transaction.tolist()
    assert first.trees.forest.sizes == other.trees.forest.sizes


def test_no_account_contributes_more_than_the_bound(data):
    settings = TrainingSettings(epsilon="1", model="paper", bound=2)
    found = prepare_payment_network(data, settings, 1)
    bare = found.keys["Id"].to_numpy()[found.pairs.key]
    totals = pl.DataFrame({"account": bare, "weight": np.abs(found.pairs.weight)})
    assert totals.group_by("account").sum()["weight"].max() == 2


@pytest.mark.parametrize("model", MODELS)
def test_training_needs_labels_and_rows(data, model):
    unlabelled = replace(data, rows=data.rows.drop("Label"))
    with pytest.raises(DataError, match="Label"):
        prepare_payment_network(unlabelled, MODELS[model], 1)
    with pytest.raises(DataError, match="no rows"):
        prepare_payment_network(replace(data, rows=data.rows.clear()), MODELS[model], 1)


# A bank.


def test_a_bank_brings_ids_classes_and_the_version_of_its_records(tables, records):
    accounts, brought = tables.accounts["bank01"], bank_records(SCHEMA, records["bank01"])
    bank, account = accounts.select("Bank", "Account").row(5)
    assert brought.qualified_ids[5] == f"{bank}|{account}".encode()
    assert brought.bare_ids[5] == account.encode()
    assert len(brought.bare_ids) == accounts.height
    # The classes of payments are the flags, in the same order.
    codes = [FLAG_CODES.index(flag) for flag in accounts["Flags"].cast(pl.String)]
    assert brought.classes.tolist() == codes
    assert brought.fingerprint == records_fingerprint(records["bank01"])


def test_a_class_that_the_schema_does_not_have_is_refused(records):
    wrong = records["bank01"].with_columns(Class=pl.lit("unheard of"))
    with pytest.raises(DataError, match="'unheard of' is no class of the schema 'payments'"):
        bank_records(SCHEMA, wrong)


def test_the_fingerprint_is_of_the_records_and_not_of_their_order(records):
    one = records["bank01"]
    version = records_fingerprint(one)
    assert version == records_fingerprint(one.reverse())
    classes = one["Class"].cast(pl.String).to_list()
    classes[0] = "frozen" if classes[0] != "frozen" else "ordinary"
    changed = one.with_columns(Class=pl.Series(classes, dtype=one["Class"].dtype))
    assert version != records_fingerprint(changed)


def test_a_bank_without_accounts_is_named(records):
    with pytest.raises(DataError, match="bank02 has no records"):
        bank_directory(records | {"bank02": records["bank02"].clear()})


def test_a_name_that_two_banks_have_is_refused(records):
    one = records["bank01"]
    with pytest.raises(DataError, match=f"{one['Holder'][0]} is at bank01 and at bank02"):
        bank_directory(records | {"bank02": one})
