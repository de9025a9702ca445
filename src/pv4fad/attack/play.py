"""All attacks on a finished run, from its stores and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from pv4fad.attack.belief import Belief
from pv4fad.attack.epsilon import RELEASES, audit
from pv4fad.attack.findings import Attack, Finding
from pv4fad.attack.lab import WORLDS, lab_findings
from pv4fad.attack.labels import add_labels
from pv4fad.attack.last_record import knowing_all_others
from pv4fad.attack.network import Held, HeldCounts, by_counts
from pv4fad.attack.stores import store_findings
from pv4fad.attack.votes import add_votes
from pv4fad.errors import DataError
from pv4fad.lead.data import bank_directory, load_holders, load_rows
from pv4fad.lead.rows import NewRows, account_index, new_rows
from pv4fad.payments.challenge import read_partition
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.tables import account_key, hashed_id
from pv4fad.run.folder import RunFolder
from pv4fad.schema import KEY_SEPARATOR, Schema
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import RootKey
from pv4fad.tables.sides import Sides, structural_columns
from pv4fad.verify.comparison import joined_classes
from pv4fad.verify.predictions import ScoredData
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Options:
    releases: int = RELEASES
    """Of the audit of ε."""
    worlds: int = WORLDS
    """Runs of each of two worlds that banks and aggregator try to tell apart."""


@dataclass(frozen=True)
class Attacked:
    """A run, and what was predicted with it."""

    folder: RunFolder
    predictions: Path

    @property
    def is_scored(self) -> bool:
        return self.predictions.is_file()


@dataclass(frozen=True)
class Truth:
    """The data of all parties."""

    schema: Schema
    splits: tuple[Path, Path]
    """What was trained on, what was scored."""
    records: Mapping[str, pl.DataFrame] = field(repr=False)

    @cached_property
    def rows(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Of training, and those that were scored."""
        known, new = (read_partition(one).transactions for one in self.splits)
        return (
            load_rows(self.schema, known, labels_required=True),
            load_rows(self.schema, new, labels_required=False),
        )

    @cached_property
    def scored_accounts(self) -> frozenset[bytes]:
        """As they are hashed."""
        names, (known, new) = structural_columns(self.schema), self.rows
        both = pl.concat([known.select(names), new.select(names)], how="vertical_relaxed")
        keys, _ = account_index(Sides(self.schema, both), 1, known.height)
        return frozenset(map(hashed_id, keys.iter_rows()))

    def payments(self) -> NewRows:
        """With all features, as they were scored."""
        known, new = self.rows
        return new_rows(self.schema, new, known)

    def classes_of(self, accounts: Sequence[bytes]) -> dict[bytes, int]:
        """The class of each account's record, -1 where there is none.

        Without those of institutions outside: no bank says anything about them.
        """
        inside = bank_directory(self.records)
        every = [
            (one, account_key(one, broadcast=KEY_SEPARATOR.encode() not in one)) for one in accounts
        ]
        ids = [one for one, (holder, _) in every if holder is None or holder in inside]
        keys = [key for _, key in every if key[0] is None or key[0] in inside]
        table = pl.DataFrame(keys, schema={"Holder": pl.String, "Id": pl.String}, orient="row")
        return dict(zip(ids, joined_classes(table, self.records).tolist(), strict=True))


def attack(
    runs: Sequence[Attacked],
    splits: tuple[Path, Path],
    root_key: RootKey,
    options: Options,
    *,
    pool: WorkerPool,
    report: Callable[[str], None] = lambda _: None,
) -> Attack:
    """The first run; the others are what the payment network knows besides.

    `splits`: what was trained on, what was scored.
    """
    folder = runs[0].folder
    document = folder.require_finished()
    schema, parameters = document.data_schema, document.parameters
    truth = Truth(schema, splits, load_holders(schema, splits[0], parameters.banks))
    report("The {lead}: what its store holds ...")
    findings = _of_payment_network(runs, truth, root_key)
    if parameters.epsilon != "none":
        report(f"An audit of ε: {options.releases:,} releases in each of two worlds ...")
        findings.append(audit(parameters, options.releases))
    report("{Holders} and aggregator: what their stores hold ...")
    others = [name for name in (AGGREGATOR, *parameters.banks) if holds_store(folder.path / name)]
    with folder.stores(others, root_key) as stores:
        findings += store_findings(stores, parameters)
    if options.worlds:
        report(f"{{Holders}} and aggregator: {2 * options.worlds} small runs of two worlds ...")
        findings += lab_findings(schema, parameters, options.worlds, pool)
    return Attack(run_id=document.run_id, findings=tuple(findings))


def _of_payment_network(runs: Sequence[Attacked], truth: Truth, root_key: RootKey) -> list[Finding]:
    """From all runs together."""
    held = [_held(run.folder, truth.schema, root_key) for run in runs]
    scored = truth.scored_accounts if any(run.is_scored for run in runs) else frozenset()
    class_of = truth.classes_of(sorted(scored.union(*(one.known for one in held))))
    belief = Belief(truth.schema, class_of)
    findings: list[Finding] = []
    if counts := [HeldCounts(one, one.counts) for one in held if one.counts is not None]:
        for view in counts:
            view.add_to(belief)
        findings.append(by_counts(counts, belief))
    for run, one in zip(runs, held, strict=True):
        one.add_bits(belief)
        if one.labels is not None and one.trees is not None:
            add_labels(belief, one, one.labels, one.trees.forest)
        elif one.trees is not None and run.is_scored:
            made = ScoredData.read(
                truth.schema,
                truth.splits[1],
                truth.records,
                run.predictions,
                one.parameters.run_id,
            )
            add_votes(belief, truth.payments(), one.trees, made.predictions)
    asked = frozenset(account for one in held for account in one.asked)
    groups = {
        "{records} that it asked about": asked,
        "{records} that it scored" + " and did not ask about" * bool(asked): scored - asked,
        "{records} that it never scored": class_of.keys() - scored - asked,
    }
    findings += belief.findings(groups)
    alone = knowing_all_others(counts, truth.schema, class_of)
    return findings if alone is None else [*findings, alone]


def _held(folder: RunFolder, schema: Schema, root_key: RootKey) -> Held:
    document = folder.require_finished()
    if document.data_schema.digest != schema.digest:
        raise DataError(f"{folder.path}: a run with another schema")
    with folder.stores([PAYMENT_NETWORK], root_key) as stores:
        return Held.stored(stores[PAYMENT_NETWORK], document.parameters)
