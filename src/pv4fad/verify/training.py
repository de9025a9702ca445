"""Compare a run with what a trusted third party computes from everybody's data (protocol.md §9).

This sees everything: all data, all stores.  It is for tests and demonstrations, and for nothing
that is meant to stay private.

    commitment      opened, and what was counted made again from the payment network's data and seed
    counts          Σ_j (p_j − q_j) for every sum: exact in every run, noise comes after
    released        the noisy counts, or the labels of red leaves: equal where there is no noise
    own             what the payment network keeps of its own: local model, or green labels
    bits, alerts    of a file of predictions, if one is given (`verify.predictions`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.evidence.trusted import trusted_counts
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.counted import counted_digest
from pv4fad.lead.data import bank_directory, load_holders, load_split, records_fingerprint
from pv4fad.lead.desk_labels import rows_as_trained
from pv4fad.lead.evidence_model import OwnModel, PreparedEvidence
from pv4fad.lead.paper_model import PreparedTrees
from pv4fad.lead.prepare import (
    TrainingRecord,
    prepare_payment_network,
    read_training_record,
)
from pv4fad.lead.rows import LeadData
from pv4fad.lead.simulate import party_names
from pv4fad.privacy.ledger import read_ledger
from pv4fad.protocol.compare.state import BankLabelShare, Labels, LabelShare
from pv4fad.protocol.count.state import BankSums, OwnSums, ReleasedCounts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.state import StoredTrees
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.folder import RunFolder
from pv4fad.schema import Schema
from pv4fad.store.records import stored
from pv4fad.store.sealing import RootKey
from pv4fad.store.store import Store
from pv4fad.verify.comparison import Comparison, joined_atoms
from pv4fad.verify.predictions import (
    ScoredData,
    compare_decisions,
    compare_votes,
    require_matched_accounts,
)

Accounts = Mapping[str, pl.DataFrame]
Stores = Mapping[str, Store]


@dataclass(frozen=True)
class Verification:
    """The comparisons of a run; `noisy` are those that noise may change, and is meant to."""

    epsilon: str
    exact: tuple[Comparison, ...]
    noisy: tuple[Comparison, ...]

    @property
    def has_noise(self) -> bool:
        return self.epsilon != "none"

    @property
    def exact_parts_agree(self) -> bool:
        return all(comparison.all_equal for comparison in self.exact)

    @property
    def all_equal(self) -> bool:
        return self.exact_parts_agree and all(each.all_equal for each in self.noisy)


def verify(
    split: Path,
    folder: RunFolder,
    root_key: RootKey,
    predictions: tuple[Path, Path] | None = None,
) -> Verification:
    """Compare the finished run in `folder` with the data it was trained on.

    `predictions`: also compare a file of predictions, made for a test split.
    """
    document = folder.require_finished()
    schema, scored = document.data_schema, None
    if predictions is not None:
        test, file = predictions
        scored_accounts = load_holders(schema, test, document.parameters.banks)
        scored = ScoredData.read(schema, test, scored_accounts, file, document.run_id)
    data = load_split(schema, split)
    accounts = data.records
    if set(accounts) != set(document.parameters.banks):
        raise DataError(
            f"{split} has other {schema.words.forms['holders']} than the run in {folder.path}"
        )
    with folder.stores(party_names(document.parameters.banks), root_key) as stores:
        return compare(document.parameters, data.rows, accounts, stores, scored=scored)


def compare(
    parameters: RunParameters,
    transactions: pl.DataFrame,
    accounts: Accounts,
    stores: Stores,
    *,
    scored: ScoredData | None = None,
) -> Verification:
    """Compare a trained run, given all stores, with everybody's data, and what it has scored."""
    run_id = parameters.run_id
    private = read_training_record(stores[PAYMENT_NETWORK], run_id)
    as_trained = rows_as_trained(
        private.data_schema,
        stores[PAYMENT_NETWORK],
        run_id,
        transactions,
        private.transactions,
    )
    if as_trained is None:
        raise DataError("these are not the rows that the run was trained on")
    transactions = as_trained
    for bank, frame in accounts.items():
        _require_same_accounts(stores[bank], run_id, records_fingerprint(frame))
    settings, seed, schema = private.settings, private.seed, private.data_schema
    data = LeadData(schema, transactions, bank_directory(accounts))
    prepared = prepare_payment_network(data, settings, seed)
    opened = (
        private.commitment == parameters.commitment,
        private.counted == counted_digest(prepared.training),
    )
    same = (Comparison("commitment", sum(opened), len(opened)),)
    if scored is not None:
        for bank, frame in scored.accounts.items():
            require_matched_accounts(stores[bank], run_id, records_fingerprint(frame))
    if isinstance(prepared, PreparedEvidence):
        exact, noisy = _compare_counts(schema, parameters, prepared, accounts, stores)
    else:
        exact, noisy = _compare_labels(parameters, prepared, private, accounts, stores)
    if scored is not None and parameters.mode == "sealed":
        labels = _red_labels(parameters, stores).popitem()[1]
        trees = prepared.trees if isinstance(prepared, PreparedTrees) else None
        if trees is not None:
            exact += compare_votes(schema, scored, transactions, trees, labels.astype(np.int8))
    elif scored is not None:
        network = stores[PAYMENT_NETWORK]
        exact += compare_decisions(schema, scored, transactions, parameters, network)
    return Verification(parameters.epsilon, same + exact, noisy)


Compared = tuple[tuple[Comparison, ...], tuple[Comparison, ...]]


def _compare_counts(
    schema: Schema,
    parameters: RunParameters,
    prepared: PreparedEvidence,
    accounts: Accounts,
    stores: Stores,
) -> Compared:
    """The default model."""
    atoms = joined_atoms(schema, prepared.keys, accounts, parameters.absent)
    theirs = trusted_counts(prepared.counted, atoms, prepared.training.sets[0])
    network = stores[PAYMENT_NETWORK]
    own, kept = prepared.own, OwnModel.stored(network, parameters.run_id)
    same_model = own.local.to_bytes() == kept.local.to_bytes()
    arrays, before = own.knowledge.to_arrays(), kept.knowledge.to_arrays()
    # The last bits of a floating-point number depend on the machine's arithmetic.
    same = [np.allclose(arrays[name], before[name], rtol=1e-9) for name in arrays]
    released = stored(network, parameters.run_id, ReleasedCounts).counts
    exact = (
        Comparison.of("counts", _shared_sums(parameters, stores), theirs),
        Comparison("local model", int(same_model), 1),
        Comparison("own knowledge", sum(same), len(same)),
    )
    return exact, (Comparison.of("released counts", released, theirs),)


def _compare_labels(
    parameters: RunParameters,
    prepared: PreparedTrees,
    private: TrainingRecord,
    accounts: Accounts,
    stores: Stores,
) -> Compared:
    """The paper's model."""
    forest = prepared.trees.forest
    atoms = joined_atoms(private.data_schema, prepared.keys, accounts, None)
    oracle = TrustedThirdParty(forest, atoms)
    theirs, counting = oracle.counts(prepared.pairs), private.settings.count_config(prepared.labels)
    green = oracle.green_labels(
        prepared.codes, prepared.labels, counting.class_weights, counting.label0_rates
    )
    kept = stored(stores[PAYMENT_NETWORK], parameters.run_id, StoredTrees).green_labels
    labels = oracle.red_labels(theirs)
    exact = (
        Comparison.of("counts", _shared_sums(parameters, stores), theirs[:, :-1]),
        Comparison.of("green leaves", kept, green),
    )
    noisy = tuple(
        Comparison.of(what, ours, labels) for what, ours in _red_labels(parameters, stores).items()
    )
    return exact, noisy


def _shared_sums(parameters: RunParameters, stores: Stores) -> NDArray[np.int64]:
    """(groups, sets): Σ_j (p_j − q_j), before any noise."""
    run_id, t = parameters.run_id, np.uint64(parameters.plain_modulus)
    total = stored(stores[PAYMENT_NETWORK], run_id, OwnSums).p
    for bank in parameters.banks:
        q = stored(stores[bank], run_id, BankSums).q
        total = (total + t - q.reshape(total.shape)) % t
    return parameters.signed(total)


def _red_labels(parameters: RunParameters, stores: Stores) -> dict[str, NDArray[np.uint64]]:
    """The labels of red leaves, by where they come from, (groups, sets + 1) each."""
    run_id, t = parameters.run_id, np.uint64(parameters.plain_modulus)
    network, shape = stores[PAYMENT_NETWORK], (parameters.sizes.n_groups, -1)
    if parameters.mode == "released":
        labels = stored(network, run_id, Labels).labels
        return {"red leaves": labels.astype(np.uint64).reshape(shape)}
    own = stored(network, run_id, LabelShare).p
    return {
        f"red leaves, with the share of {bank}": (
            (own + stored(stores[bank], run_id, BankLabelShare).b) % t
        ).reshape(shape)
        for bank in parameters.banks
    }


def _require_same_accounts(store: Store, run_id: str, version: str) -> None:
    """What a bank spent ε on is in its ledger."""
    used = {
        expense.account_file for expense in read_ledger(store).expenses if expense.run_id == run_id
    }
    if used != {version}:
        raise DataError(f"{store.party}: these are not the records that the run was trained on")
