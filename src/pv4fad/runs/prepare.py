"""From data frames to what each party brings to a run.

The payment network and each bank have a function of their own, with inputs of their own.  All that
the payment network needs of a bank is public in the federation: which BICs it keeps accounts for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import FeatureTable, compute_features
from pv4fad.data.loading import ACCOUNT_KEY
from pv4fad.data.routing import BENEFICIARY_BANK, ORDERING_BANK, route
from pv4fad.data.schema import LABEL
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.recipe import LOCAL_SCORE, Detection
from pv4fad.detection.stacked import LocalScale, sample_rows
from pv4fad.errors import DataError
from pv4fad.forest.atoms import AtomSchema
from pv4fad.forest.build import build_forest
from pv4fad.forest.counts import green_labels, group_counts
from pv4fad.forest.pairs import AccountIndex, KeptPairs, choose_pairs
from pv4fad.forest.records import SlotPredicate, record_atoms
from pv4fad.forest.tree import Side
from pv4fad.hashing.identity import qualified_key_expr
from pv4fad.hashing.keyed import tree_of
from pv4fad.parties.bank_table import BankRecords
from pv4fad.parties.network_stages import TrainingInput
from pv4fad.protocol.tables import assign_tables
from pv4fad.runs.bank_files import applied_slots
from pv4fad.runs.settings import TrainingSettings

_FINGERPRINT_ROWS = 100_000  # at a time
_FOLDS = 3
_LEAST_ANOMALIES = 100  # to find the scale of the local score with


@dataclass(frozen=True)
class PreparedNetwork:
    """The payment network's side of a run: what it brings, and how that came about."""

    training: TrainingInput = field(repr=False)
    codes: NDArray[np.int32] = field(repr=False)  # (transactions, trees): where each one lands
    labels: NDArray[np.int8] = field(repr=False)
    keys: pl.DataFrame = field(repr=False)  # Bank, Account: row k is account key k
    pairs: KeptPairs = field(repr=False)
    detection: Detection | None = field(repr=False)  # None: only votes are wanted
    sample_scores: NDArray[np.float32] | None = field(repr=False)
    """Out-of-fold local scores of the rows of `sample_rows`, if they were needed."""


# The payment network.


def prepare_payment_network(
    transactions: pl.DataFrame,
    directory: Mapping[str, str],
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable | None = None,
) -> PreparedNetwork:
    """Local model, trees, counts and tables from labelled transactions (TRANSACTION_SCHEMA).

    `directory`: BIC → bank of the federation.  `seed` governs structure and sampling, nothing else.
    `features` of the transactions, if they are known already.
    """
    if LABEL not in transactions.columns:
        raise DataError(f"the transactions have no column {LABEL}: training needs labels")
    if transactions.is_empty():
        raise DataError("there are no transactions to train with")
    labels = transactions[LABEL].to_numpy().astype(np.int8)
    keys, accounts = account_index(route(transactions), settings.trees)
    features = compute_features(transactions) if features is None else features
    groups = accounts.key_of[:, Side.BENEFICIARY]
    local: LocalModel | None = None
    sample_scores = None
    if settings.cuts_local_score:
        own, tested = LocalModel.fit(features.values, features.names, labels, groups, seed=seed)
        local, scale = own, LocalScale()
        features = with_local_score(features, tested)
    elif settings.needs_local_model:
        local = fit_local_model(features, labels, seed)
        scale, sample_scores = local_scale(features, labels, groups, seed)
    config, counting = settings.forest_config(), settings.count_config()
    forest = build_forest(config, features.names, features.values, labels, seed)
    codes = forest.route(features.values)
    # Of its own: the draws of the forest must not depend on how many accounts there are.
    rng = np.random.default_rng([seed, 1])
    pairs = choose_pairs(forest, codes, labels, accounts, config=counting, rng=rng)
    training = TrainingInput(
        forest,
        group_counts(forest, pairs, accounts.n_keys),
        green_labels(forest, codes, labels, counting.class_weights),
        assign_tables(
            list(keys.iter_rows()),
            directory,
            config.n_trees,
            broadcast=keys["Bank"].null_count() > 0,
        ),
    )
    rates = settings.ladder_rates()
    detection = None
    if local is not None:
        detection = Detection.of(
            local, scale, forest=forest, accounts=accounts, labels=labels, rates=rates
        )
    return PreparedNetwork(training, codes, labels, keys, pairs, detection, sample_scores)


def fit_local_model(
    features: FeatureTable,
    labels: NDArray[np.int8],
    seed: int,
) -> LocalModel:
    """The local model of all rows."""
    one_group = np.zeros(len(labels), np.int64)  # no out-of-fold scores are wanted
    return LocalModel.fit(features.values, features.names, labels, one_group, seed=seed)[0]


def out_of_fold_scores(
    features: FeatureTable,
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    chosen: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float32]:
    """Local scores of the chosen rows, all anomalies among them, each without its own group."""
    own = labels[chosen]
    _, scores = LocalModel.fit(
        features.values[chosen], features.names, own, groups[chosen], seed=seed, folds=_FOLDS
    )
    # Among the chosen rows anomalies are less rare than among all.
    thinned = max(1, int((own == 0).sum())) / max(1, int((labels == 0).sum()))
    return scores + np.float32(np.log(thinned))


def local_scale(
    features: FeatureTable, labels: NDArray[np.int8], groups: NDArray[np.int64], seed: int
) -> tuple[LocalScale, NDArray[np.float32] | None]:
    """What the local score is worth, and the out-of-fold scores that tell; as it is, and None,
    where there are too few anomalies to tell."""
    if int(labels.sum()) < _LEAST_ANOMALIES:
        return LocalScale(), None
    chosen = sample_rows(labels, seed)
    scores = out_of_fold_scores(features, labels, groups, chosen, seed)
    return LocalScale.fit(scores, labels[chosen], labels), scores


def with_local_score(features: FeatureTable, scores: NDArray[np.float32]) -> FeatureTable:
    """The local score as one feature more."""
    values = np.concatenate([features.values, scores[:, np.newaxis]], axis=1)
    return FeatureTable((*features.names, LOCAL_SCORE), values)


def account_index(routed: pl.DataFrame, n_trees: int) -> tuple[pl.DataFrame, AccountIndex]:
    """The distinct accounts (Bank, Account) of routed transactions, and who stands where."""
    sides = pl.concat(
        routed.select(pl.col(bank).cast(pl.String).alias("Bank"), pl.col(account).alias("Account"))
        for bank, account in (
            (ORDERING_BANK, "OrderingAccount"),
            (BENEFICIARY_BANK, "BeneficiaryAccount"),
        )
    )
    keys = sides.unique().sort(ACCOUNT_KEY)
    key_of = sides.join(
        keys.with_row_index("key"),
        on=ACCOUNT_KEY,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["key"].to_numpy()
    bare_ids = keys["Account"].unique().sort()
    index = AccountIndex(
        key_of.astype(np.int64).reshape(2, -1).T,
        keys["Account"].rank("dense").to_numpy().astype(np.int64) - 1,
        tree_of(bare_ids.cast(pl.Binary).to_list(), n_trees),
    )
    return keys, index


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


# Both.


def fingerprint(table: pl.DataFrame) -> str:
    """SHA-256 of the rows of a table, however its file spells them."""
    digest = hashlib.sha256(",".join(table.columns).encode())
    for rows in table.iter_slices(_FINGERPRINT_ROWS):
        digest.update(rows.write_csv(include_header=False).encode())
    return digest.hexdigest()
