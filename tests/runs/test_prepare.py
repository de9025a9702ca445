"""What each party brings follows from its own data, and from nobody else's."""

import numpy as np
import polars as pl
import pytest

from pv4fad.data.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.errors import DataError
from pv4fad.forest.atoms import schema_with_slots
from pv4fad.forest.forest_file import to_document
from pv4fad.forest.records import SlotPredicate
from pv4fad.hashing.keyed import tree_of
from pv4fad.runs.prepare import (
    account_file_fingerprint,
    account_index,
    bank_directory,
    bank_records,
    prepare_payment_network,
)
from pv4fad.runs.settings import TrainingSettings

SETTINGS = TrainingSettings(epsilon="1", structure="random", trees=5, height=4)


@pytest.fixture
def transactions(tables):
    return tables.train.transactions


@pytest.fixture
def directory(tables):
    return bank_directory({bank: tables.accounts[bank] for bank in ("bank01", "bank02")})


def test_accounts_are_numbered_as_a_plain_loop_would_read_them(transactions):
    routed = route(transactions)
    keys, index = account_index(routed, 7)
    rows = list(keys.iter_rows())
    assert len(set(rows)) == len(rows)
    sides = ((ORDERING_BANK, "OrderingAccount"), (BENEFICIARY_BANK, "BeneficiaryAccount"))
    for side, (bank, account) in enumerate(sides):
        expected = list(zip(routed[bank].cast(pl.String), routed[account], strict=True))
        assert [rows[key] for key in index.key_of[:, side]] == expected
    tree = index.tree_of[index.bare_of]
    assert (tree == tree_of([account.encode() for _, account in rows], 7)).all()


def test_an_account_of_an_unknown_bank_has_a_key_of_its_own():
    routed = pl.DataFrame(
        {
            ORDERING_BANK: [None, "AAAADEFF"],
            "OrderingAccount": ["X", "X"],
            BENEFICIARY_BANK: ["AAAADEFF", None],
            "BeneficiaryAccount": ["X", "X"],
        }
    )
    keys, index = account_index(routed, 1)
    assert list(keys.iter_rows()) == [(None, "X"), ("AAAADEFF", "X")]
    assert index.key_of.tolist() == [[0, 1], [1, 0]]
    assert index.bare_of.tolist() == [0, 0]


def test_every_account_is_in_one_table_also_those_of_who_takes_no_part(transactions, directory):
    prepared = prepare_payment_network(transactions, directory, SETTINGS, 1)
    tables = prepared.training.tables
    assert set(tables) == {"bank01", "bank02"}
    numbers = np.concatenate([table.keys for table in tables.values()])
    assert sorted(numbers) == list(range(prepared.keys.height))
    outsiders = ~prepared.keys["Bank"].is_in(list(directory))
    assert outsiders.any()


def test_the_seed_decides_structure_and_sampling_and_nothing_public(transactions, directory):
    first, again, other = (
        prepare_payment_network(transactions, directory, SETTINGS, seed) for seed in (1, 1, 2)
    )
    trees = [to_document(one.training.forest) for one in (first, again, other)]
    assert trees[0] == trees[1] != trees[2]
    assert (first.pairs.transaction == again.pairs.transaction).all()
    assert first.pairs.transaction.tolist() != other.pairs.transaction.tolist()
    assert first.training.forest.sizes == other.training.forest.sizes


def test_no_account_contributes_more_than_the_bound(transactions, directory):
    settings = TrainingSettings(epsilon="1", bound=2)
    prepared = prepare_payment_network(transactions, directory, settings, 1)
    bare = prepared.keys["Account"].to_numpy()[prepared.pairs.key]
    totals = pl.DataFrame({"account": bare, "weight": np.abs(prepared.pairs.weight)})
    assert totals.group_by("account").sum()["weight"].max() <= 2


def test_training_needs_labels_and_transactions(transactions, directory):
    with pytest.raises(DataError, match="Label"):
        prepare_payment_network(transactions.drop("Label"), directory, SETTINGS, 1)
    with pytest.raises(DataError, match="no transactions"):
        prepare_payment_network(transactions.clear(), directory, SETTINGS, 1)


def test_a_bank_brings_ids_atoms_and_the_version_of_its_file(tables):
    accounts = tables.accounts["bank01"]
    slots = {"risk": SlotPredicate(column="Flags", operator="!=", value="00")}
    records = bank_records(accounts, schema_with_slots(["risk"]), slots)
    bank, account, flag = accounts.select("Bank", "Account", "Flags").row(5)
    assert records.qualified_ids[5] == f"{bank}|{account}".encode()
    assert records.bare_ids[5] == account.encode()
    assert len(records.bare_ids) == accounts.height
    assert records.atoms[:, 0].tolist() == accounts["Flags"].to_physical().to_list()
    assert records.atoms[5].tolist() == [
        accounts["Flags"].to_physical()[5], 11 if flag == "00" else 12,
    ]  # fmt: skip


def test_the_fingerprint_is_of_the_records_and_not_of_their_order(tables):
    accounts = tables.accounts["bank01"]
    version = account_file_fingerprint(accounts)
    assert version == account_file_fingerprint(accounts.reverse())
    flags = accounts["Flags"].cast(pl.String).to_list()
    flags[0] = "07" if flags[0] != "07" else "00"
    changed = accounts.with_columns(Flags=pl.Series(flags, dtype=accounts["Flags"].dtype))
    assert version != account_file_fingerprint(changed)


def test_a_bank_without_accounts_is_named(tables):
    accounts = dict(tables.accounts)
    accounts["bank02"] = accounts["bank02"].clear()
    with pytest.raises(DataError, match="bank02 has no accounts"):
        bank_directory(accounts)
