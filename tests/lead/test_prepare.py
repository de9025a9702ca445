"""What each party brings follows from its own data, and from nobody else's."""

from functools import cache

import numpy as np
import polars as pl
import pytest

from pv4fad.errors import DataError
from pv4fad.evidence.cells import N_CELLS, N_HIT_CELLS
from pv4fad.evidence.classes import counted_sets
from pv4fad.forest.atoms import class_schema, schema_with_slots
from pv4fad.forest.forest_file import to_document
from pv4fad.forest.records import SlotPredicate
from pv4fad.hashing.keyed import tree_of
from pv4fad.lead.bank_files import account_file_fingerprint, bank_directory, bank_records
from pv4fad.lead.payments import account_index
from pv4fad.lead.prepare import prepare_payment_network
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.routing import BENEFICIARY_BANK, ORDERING_BANK, route

EVIDENCE = TrainingSettings(epsilon="1")
PAPER = TrainingSettings(epsilon="1", model="paper", trees=5, height=4)
MODELS = {"evidence": EVIDENCE, "paper": PAPER}


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


@pytest.fixture(scope="module")
def prepared(tables):
    """By model; as often as asked for, it is prepared once."""
    known = bank_directory({bank: tables.accounts[bank] for bank in ("bank01", "bank02")})

    @cache
    def of(model: str, seed: int = 1):
        return prepare_payment_network(tables.train.transactions, known, MODELS[model], seed)

    return of


@pytest.mark.parametrize("model", MODELS)
def test_every_account_is_in_one_table_also_those_of_who_takes_no_part(prepared, directory, model):
    found = prepared(model)
    tables = found.training.tables
    assert set(tables) == {"bank01", "bank02"}
    numbers = np.concatenate([table.keys for table in tables.values()])
    assert sorted(numbers) == list(range(found.keys.height))
    outsiders = ~found.keys["Bank"].is_in(list(directory))
    assert outsiders.any()


# The default model.


def test_every_account_of_the_federation_counts_once_and_no_other(prepared, directory):
    """Bound 1, over all cells, labels and sides, for a bare id; outsiders never count."""
    found = prepared("evidence")
    counts, keys = found.training.counts, found.keys
    counted = keys[counts.key.tolist()]
    assert counts.weight.tolist() == [1] * len(counts.key)
    assert counted["Account"].n_unique() == counted.height
    inside = keys.filter(pl.col("Bank").is_in(list(directory)))
    assert set(counted["Account"]) == set(inside["Account"])
    assert counted["Bank"].is_in(list(directory)).all()
    assert set(keys["Account"]) - set(counted["Account"]), "there are no outsiders"


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
    bare = found.keys["Account"]
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
def test_the_sets_that_are_counted_are_those_of_the_settings(transactions, directory, sets, absent):
    settings = TrainingSettings(epsilon="1", sets=sets, absent=absent)
    found = prepare_payment_network(transactions, directory, settings, 1)
    assert found.training.sets == (counted_sets(sets, absent),) * N_CELLS


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


def test_no_account_contributes_more_than_the_bound(transactions, directory):
    settings = TrainingSettings(epsilon="1", model="paper", bound=2)
    found = prepare_payment_network(transactions, directory, settings, 1)
    bare = found.keys["Account"].to_numpy()[found.pairs.key]
    totals = pl.DataFrame({"account": bare, "weight": np.abs(found.pairs.weight)})
    assert totals.group_by("account").sum()["weight"].max() == 2


@pytest.mark.parametrize("model", MODELS)
def test_training_needs_labels_and_transactions(transactions, directory, model):
    with pytest.raises(DataError, match="Label"):
        prepare_payment_network(transactions.drop("Label"), directory, MODELS[model], 1)
    with pytest.raises(DataError, match="no transactions"):
        prepare_payment_network(transactions.clear(), directory, MODELS[model], 1)


# A bank.


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


@pytest.mark.parametrize(("absent", "ordinary"), [("class", 0), ("ordinary", -1)])
def test_a_bank_brings_the_class_of_each_record(tables, absent, ordinary):
    """Where absent and ordinary are the same, there is no atom for an ordinary record."""
    accounts = tables.accounts["bank01"]
    atoms = bank_records(accounts, class_schema(absent)).atoms[:, 0]
    flags = accounts["Flags"].cast(pl.String)
    assert set(atoms[(flags == "00").to_numpy()].tolist()) == {ordinary}
    others = set(atoms[(flags != "00").to_numpy()].tolist())
    assert others <= {ordinary + 1, ordinary + 2}
    assert others


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
