"""Vote totals give away who is not ordinary, whatever the noise; in the clear."""

import numpy as np
import pytest
from tests.kit.small_federation import records_of

from pv4fad.attack.belief import ABSENT, Belief
from pv4fad.attack.votes import add_votes
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.data import bank_directory, load_rows
from pv4fad.lead.paper_model import prepare_trees, vote_table
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.tables import hashed_id
from pv4fad.tables.features import compute_features
from pv4fad.verify.comparison import joined_classes


@pytest.fixture(scope="module")
def scored():
    """Of three banks two take part."""
    settings = Settings(15_000, 3, Difficulty.CHALLENGE, 3, anomaly_rate=0.05, accounts=1500)
    tables = generate_tables(settings)
    records = records_of(tables.accounts, "bank01", "bank02")
    rows = load_rows(SCHEMA, tables.train.transactions, labels_required=True)
    new = load_rows(SCHEMA, tables.test.transactions, labels_required=False)
    prepared = prepare_trees(
        LeadData(SCHEMA, rows, bank_directory(records)),
        TrainingSettings(epsilon="1", model="paper", scoring="votes"),
        33,
        compute_features(SCHEMA, rows),
    )
    return records, prepared.trees, new_rows(SCHEMA, new, rows)


@pytest.mark.parametrize(("labels_are", "least_possible"), [("rare", 0.95), ("coin flips", 0.6)])
def test_all_are_recognised_whose_totals_are_not_those_of_an_ordinary_account(
    scored, labels_are, least_possible
):
    records, trees, payments = scored
    classes = joined_classes(payments.key_table(), records).copy()
    directory = bank_directory(records)
    rng, forest = np.random.default_rng(1), trees.forest
    # More that are not ordinary than there are: of every class, and absent.
    odd = (classes == 0) & (rng.random(len(classes)) < 0.04)
    classes[odd] = rng.integers(1, len(SCHEMA.record.classes) + 1, odd.sum())
    classes[classes == len(SCHEMA.record.classes)] = ABSENT
    share = 0.1 if labels_are == "rare" else 0.5
    red = (rng.random((forest.sizes.n_groups, 2)) < share).astype(np.int8)
    codes = forest.route(payments.features.values)
    sides = (
        TrustedThirdParty(forest, one).votes(codes, payments.key_of, red, trees.green_labels).sides
        for one in (classes, np.zeros_like(classes))
    )
    votes, as_ordinary = sides
    ids = [hashed_id(key) for key in payments.keys]
    inside = [holder in directory for holder, _ in payments.keys]
    class_of = {
        one: int(found) for one, found, is_in in zip(ids, classes, inside, strict=True) if is_in
    }
    belief = Belief(SCHEMA, class_of)
    add_votes(belief, payments, trees, vote_table(SCHEMA, payments, trees, codes, votes))
    found = {
        one.measure: one for one in belief.findings({"X": ids}) if "not ordinary" in one.target
    }
    # Of some, all totals are those of an ordinary account.
    differs = np.zeros(len(ids), np.bool_)
    np.logical_or.at(differs, payments.key_of, votes != as_ordinary)
    possible = sum(differs & np.array(inside)) / found["share recognised"].n
    assert found["share recognised"].n > 20
    assert possible > least_possible
    assert found["share recognised"].found >= possible
    # Those whose totals tell nothing are named by chance, after all others.
    assert found["precision"].found > least_possible - 0.1
