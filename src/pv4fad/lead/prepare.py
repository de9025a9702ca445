"""From data frames to what each party brings to a run.

The payment network and each bank have a function of their own, with inputs of their own.  All that
the payment network needs of a bank is public in the federation: which BICs it keeps accounts for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import LocalModel, usual_values
from pv4fad.detection.local_scale import honest_sample
from pv4fad.errors import DataError
from pv4fad.evidence.cells import N_CELLS, CountedAccounts, TrainingPayments
from pv4fad.evidence.classes import counted_sets
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.forest.atoms import AtomSchema
from pv4fad.forest.pairs import GroupCounts, KeptPairs, choose_pairs, green_labels, group_counts
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.records import SlotPredicate, record_atoms
from pv4fad.forest.tree import Side
from pv4fad.lead.bank_files import applied_slots
from pv4fad.lead.own_model import OwnModel
from pv4fad.lead.payments import account_index, fingerprint, first_payments, inside_federation
from pv4fad.lead.settings import TrainingSettings
from pv4fad.parties.bank_table import BankRecords
from pv4fad.parties.network_stages import TrainingInput, Trees
from pv4fad.payments.features import FeatureTable, compute_features
from pv4fad.payments.identity import qualified_key_expr
from pv4fad.payments.loading import ACCOUNT_KEY
from pv4fad.payments.routing import route
from pv4fad.payments.schema import LABEL
from pv4fad.protocol.tables import TableAccounts, assign_tables


@dataclass(frozen=True)
class PreparedEvidence:
    """The payment network's side of a run of the default model."""

    training: TrainingInput = field(repr=False)
    keys: pl.DataFrame = field(repr=False)  # Bank, Account: row k is account key k
    counted: CountedAccounts = field(repr=False)
    own: OwnModel = field(repr=False)


@dataclass(frozen=True)
class PreparedTrees:
    """The payment network's side of a run of the paper's model."""

    training: TrainingInput = field(repr=False)
    keys: pl.DataFrame = field(repr=False)
    trees: Trees = field(repr=False)
    codes: NDArray[np.int32] = field(repr=False)  # (transactions, trees): where each one lands
    labels: NDArray[np.int8] = field(repr=False)
    pairs: KeptPairs = field(repr=False)


# The payment network.


def prepare_payment_network(
    transactions: pl.DataFrame,
    directory: Mapping[str, str],
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable | None = None,
) -> PreparedEvidence | PreparedTrees:
    """What it brings to a run, from labelled transactions (TRANSACTION_SCHEMA).

    `directory`: BIC → bank of the federation.  `seed` governs structure and sampling, nothing else.
    `features` of the transactions, if they are known already.
    """
    if LABEL not in transactions.columns:
        raise DataError(f"the transactions have no column {LABEL}: training needs labels")
    if transactions.is_empty():
        raise DataError("there are no transactions to train with")
    features = compute_features(transactions) if features is None else features
    if settings.model == "paper":
        return prepare_trees(transactions, directory, settings, seed, features)
    return prepare_evidence(transactions, directory, settings, seed, features)


def prepare_evidence(
    transactions: pl.DataFrame,
    directory: Mapping[str, str],
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable,
) -> PreparedEvidence:
    """The local model, and which account counts in which cell."""
    labels = transactions[LABEL].to_numpy().astype(np.int8)
    keys, accounts = account_index(route(transactions), 1)
    local = fit_local_model(features, labels, seed)
    sample = honest_sample(features, labels, accounts.key_of[:, Side.BENEFICIARY], seed)
    payments = TrainingPayments(
        accounts,
        labels,
        first_payments(transactions).to_numpy(),
        transactions["Timestamp"].cast(pl.Int64).to_numpy(),
        inside_federation(keys, directory),
    )
    knowledge, counted = Knowledge.of(payments, sample, seed)
    usual = usual_values(features.values)
    sets = counted_sets(settings.sets, settings.absent)
    training = TrainingInput(
        cell_counts(counted), (sets,) * N_CELLS, _tables(keys, directory, n_trees=1)
    )
    return PreparedEvidence(training, keys, counted, OwnModel(local, usual, knowledge))


def prepare_trees(
    transactions: pl.DataFrame,
    directory: Mapping[str, str],
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable,
) -> PreparedTrees:
    """The forest of the paper's model, and what its leaves count."""
    labels = transactions[LABEL].to_numpy().astype(np.int8)
    keys, accounts = account_index(route(transactions), settings.trees)
    config, counting = settings.forest_config(), settings.count_config(labels)
    forest = build_forest(config, features.names, features.values, seed)
    codes = forest.route(features.values)
    # Of its own: the draws of the forest must not depend on how many accounts there are.
    rng = np.random.default_rng([seed, 1])
    pairs = choose_pairs(forest, codes, labels, accounts, config=counting, rng=rng)
    own_labels = green_labels(forest, codes, labels, counting.class_weights, counting.label0_rates)
    trees = Trees(forest, own_labels)
    training = TrainingInput(
        group_counts(forest, pairs, accounts.n_keys),
        tuple(group.sets for group in forest.groups),
        _tables(keys, directory, config.n_trees),
        trees,
    )
    return PreparedTrees(training, keys, trees, codes, labels, pairs)


def fit_local_model(features: FeatureTable, labels: NDArray[np.int8], seed: int) -> LocalModel:
    """The local model of all rows."""
    one_group = np.zeros(len(labels), np.int64)  # no out-of-fold scores are wanted
    return LocalModel.fit(features.values, features.names, labels, one_group, seed=seed)[0]


def cell_counts(counted: CountedAccounts) -> GroupCounts:
    """Each account that counts, once, in its cell."""
    order = np.lexsort((counted.key, counted.cell))
    start = np.searchsorted(counted.cell[order], np.arange(N_CELLS + 1))
    ones = np.ones(len(order), np.int64)
    return GroupCounts(start, counted.key[order], ones, counted.kept)


def _tables(
    keys: pl.DataFrame, directory: Mapping[str, str], n_trees: int
) -> dict[str, TableAccounts]:
    some_unknown = keys["Bank"].null_count() > 0
    return assign_tables(list(keys.iter_rows()), directory, n_trees, broadcast=some_unknown)


# A bank.


def bank_records(
    accounts: pl.DataFrame, schema: AtomSchema, slots: Mapping[str, SlotPredicate] | None = None
) -> BankRecords:
    """A bank's accounts (ACCOUNT_SCHEMA, each once) as it brings them to a run.

    `slots`: the bank's own meaning of the private slots of the run; by default those that were
    applied when its file was read (`bank_files`).
    """
    slots = applied_slots(accounts) if slots is None else slots
    ids = accounts.select(
        qualified=qualified_key_expr(pl.col("Bank").cast(pl.String), pl.col("Account")),
        bare=pl.col("Account").cast(pl.Binary),
    )
    return BankRecords(
        tuple(ids["qualified"]),
        tuple(ids["bare"]),
        record_atoms(schema, accounts, slots).astype(np.int16),
        account_file_fingerprint(accounts),
    )


def account_file_fingerprint(accounts: pl.DataFrame) -> str:
    """The version of a bank's account file: equal if and only if the records are."""
    return fingerprint(accounts.sort(ACCOUNT_KEY))


def bank_directory(accounts: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """BIC → bank, as the banks of a federation make it known."""
    directory: dict[str, str] = {}
    for bank, frame in accounts.items():
        if frame.is_empty():
            raise DataError(f"{bank} has no accounts: leave it out of the federation")
        directory |= dict.fromkeys(frame["Bank"].cast(pl.String).unique().sort(), bank)
    return directory
