"""Compare a run with what a trusted third party computes from everybody's data (protocol.md §9).

This sees everything: all data, all stores.  It is for tests and demonstrations, and for nothing
that is meant to stay private.

    structure      the trees, drawn again from the payment network's seed; and its commitment
    counts         Σ_j (p_j − q_j) for every set, and N_path less these for the rest
    red labels     the shares of the payment network and of every bank, added up
    green labels   as the payment network keeps them
    votes          of every transaction in a file of predictions, if one is given

Noise is added to the labels only, after the counts are shared, so counts are exact in every run;
the red labels of a run with noise cannot be told from a mistake.  Votes are exact in every run: of
one with noise they are compared with what follows from its noisy labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.forest.forest_file import commitment, to_document
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.parties.party import PAYMENT_NETWORK, RunRecords
from pv4fad.parties.sealing import Passphrase
from pv4fad.parties.store import Store
from pv4fad.privacy.ledger import read_ledger
from pv4fad.protocol.parameters import RunParameters
from pv4fad.runs.bank_files import load_split
from pv4fad.runs.combining import DetectionAtHand, stored_detection
from pv4fad.runs.comparison import Comparison, joined_atoms
from pv4fad.runs.folder import RunFolder
from pv4fad.runs.members import party_names
from pv4fad.runs.new_run import read_training_record
from pv4fad.runs.prepare import (
    account_file_fingerprint,
    bank_directory,
    fingerprint,
    prepare_payment_network,
)
from pv4fad.runs.site import load_banks
from pv4fad.runs.vote_verification import ScoredData, compare_votes, require_matched_accounts


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
        return all(one.all_equal for one in self.exact)

    @property
    def all_equal(self) -> bool:
        return self.exact_parts_agree and all(one.all_equal for one in self.noisy)


def verify(
    split: Path,
    folder: RunFolder,
    passphrase: Passphrase,
    predictions: tuple[Path, Path] | None = None,
) -> Verification:
    """Compare the finished run in `folder` with the data it was trained on.

    `predictions`: also compare the votes in a file of predictions, made for a test split.
    """
    document = folder.require_finished()
    scored = None
    if predictions is not None:
        test, file = predictions
        scored = ScoredData.read(test, load_banks(test, folder, document), file)
    tables = load_split(split)
    accounts = {bank: table.frame for bank, table in tables.accounts.items()}
    if set(accounts) != set(document.parameters.banks):
        raise DataError(f"{split} has other banks than the run in {folder.path}")
    with folder.stores(party_names(document.parameters.banks), passphrase) as stores:
        committed = bytes.fromhex(document.structure_commitment)
        transactions = tables.transactions.frame
        return compare(
            document.parameters, committed, transactions, accounts, stores, scored=scored
        )


def compare(
    parameters: RunParameters,
    committed: bytes,
    transactions: pl.DataFrame,
    accounts: Mapping[str, pl.DataFrame],
    stores: Mapping[str, Store],
    *,
    scored: ScoredData | None = None,
) -> Verification:
    """Compare a trained run, given all stores, with everybody's data, and what it has scored."""
    run_id = parameters.run_id
    private = read_training_record(stores[PAYMENT_NETWORK], run_id)
    if fingerprint(transactions) != private.transactions:
        raise DataError("these are not the transactions that the run was trained on")
    for bank, frame in accounts.items():
        _require_same_accounts(stores[bank], run_id, account_file_fingerprint(frame))
    settings, seed = private.settings, private.seed
    prepared = prepare_payment_network(transactions, bank_directory(accounts), settings, seed)
    forest = prepared.training.forest
    oracle = TrustedThirdParty(forest, joined_atoms(prepared.keys, accounts, forest.schema))
    counts = oracle.counts(prepared.pairs)
    weights = settings.count_config().class_weights
    green = oracle.green_labels(prepared.codes, prepared.labels, weights)

    model = _Model.of(parameters, stores)
    opened = commitment(forest, bytes.fromhex(private.nonce))
    exact: tuple[Comparison, ...] = (
        Comparison("trees", _equal_trees(to_document(forest), model.forest), len(forest.trees)),
        Comparison("commitment", int(opened == committed), 1),
        Comparison.of("counts", model.counts, counts),
        Comparison.of("green leaves", model.green, green),
    )
    if prepared.detection is not None:
        kept = stored_detection(stores[PAYMENT_NETWORK], run_id)
        same = kept is not None and kept.local.to_bytes() == prepared.detection.local.to_bytes()
        exact += (Comparison("local model", int(same), 1),)
    labels = oracle.red_labels(counts)
    noisy = tuple(Comparison.of(what, ours, labels) for what, ours in model.red.items())
    if scored is not None:
        for bank, frame in scored.accounts.items():
            require_matched_accounts(stores[bank], run_id, account_file_fingerprint(frame))
        if parameters.epsilon != "none":
            # What noise did to the labels is no mistake: the votes follow from them as they are.
            labels = next(iter(model.red.values())).astype(np.int8)
        own = DetectionAtHand(stores[PAYMENT_NETWORK], run_id, parameters)
        exact += compare_votes(
            scored, transactions, forest, red_labels=labels, green_labels=green, own=own
        )
    return Verification(parameters.epsilon, exact, noisy)


def _require_same_accounts(store: Store, run_id: str, version: str) -> None:
    """What a bank spent ε on is in its ledger."""
    used = {one.account_file for one in read_ledger(store).expenses if one.run_id == run_id}
    if used != {version}:
        raise DataError(f"{store.party}: these are not the accounts that the run was trained on")


def _equal_trees(ours: dict[str, object], theirs: dict[str, object]) -> int:
    """How many trees are the same; none if the forests differ in anything else."""
    trees, kept = ours.pop("trees"), theirs.pop("trees")
    if ours != theirs or not isinstance(trees, list) or not isinstance(kept, list):
        return 0
    return sum(one == other for one, other in zip(trees, kept, strict=False))


@dataclass(frozen=True)
class _Model:
    """The model of a run in the clear."""

    forest: dict[str, object]
    counts: NDArray[np.int64]  # (groups, sets + 1)
    red: dict[str, NDArray[np.uint64]]  # by where they come from, (groups, sets + 1) each
    green: NDArray[np.integer]

    @classmethod
    def of(cls, parameters: RunParameters, stores: Mapping[str, Store]) -> _Model:
        run_id, t = parameters.run_id, parameters.plain_modulus
        network = stores[PAYMENT_NETWORK]
        p = _arrays(network, run_id, "sums")["p"].astype(np.int64)
        q = np.zeros_like(p)
        for bank in parameters.banks:
            q += _arrays(stores[bank], run_id, "sums")["q"].astype(np.int64).reshape(p.shape)
        in_sets = (p - q + t // 2) % t - t // 2
        n_path = _arrays(network, run_id, "counts")["n_path"]
        rest = n_path[:, np.newaxis] - in_sets.sum(axis=1, keepdims=True)
        shape = (parameters.sizes.n_groups, -1)
        if parameters.mode == "released":
            labels = _arrays(network, run_id, "labels")["labels"]
            red = {"red leaves": labels.astype(np.uint64).reshape(shape)}
        else:
            own = _arrays(network, run_id, "label share")["p"]
            red = {
                f"red leaves, with the share of {bank}": (
                    (own + _arrays(stores[bank], run_id, "label share")["b"]) % np.uint64(t)
                ).reshape(shape)
                for bank in parameters.banks
            }
        with network.transaction() as tx:
            forest = RunRecords(tx, run_id).get_json("forest")
        green = _arrays(network, run_id, "green labels")["labels"]
        return cls(forest, np.concatenate([in_sets, rest], axis=1), red, green)


def _arrays(store: Store, run_id: str, name: str) -> dict[str, NDArray[np.integer]]:
    with store.transaction() as tx:
        return RunRecords(tx, run_id).get_arrays(name)
