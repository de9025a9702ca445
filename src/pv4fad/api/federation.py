"""A federation on this machine: the lead, its holders and the aggregator, all in this process.

A holder's table becomes classes here, and nothing else of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import polars as pl

from pv4fad.api.arguments import (
    Limit,
    RulesLike,
    SchemaLike,
    Source,
    by_holder,
    given_limit,
    given_limits,
    given_passphrase,
    given_records,
    given_rules,
    given_schema,
    given_table,
)
from pv4fad.errors import BudgetError, ParameterError, StoreError
from pv4fad.lead import refresh as refreshing
from pv4fad.lead import score as scoring
from pv4fad.lead import simulate as parties
from pv4fad.lead import train as training
from pv4fad.lead.data import all_records, bank_directory, load_rows
from pv4fad.lead.federation import Federation as Parties
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.score import How, Scored
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.privacy.ledger import Ledger, read_ledger, set_limit
from pv4fad.rules import Rules
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter
from pv4fad.schema import Schema
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool


def simulate(
    holders: Mapping[str, Source],
    schema: SchemaLike = SCHEMA,
    *,
    rules: Mapping[str, RulesLike] | None = None,
    limit: Limit | Mapping[str, Limit] | None = None,
    workers: int = 0,
    folder: Path | str | None = None,
    key_file: Path | str | None = None,
) -> Federation:
    """A federation of these holders on this machine, with real cryptography.

    >>> federation = pv4fad.simulate(hospitals, claims_schema, limit=3)
    >>> federation
    Federation(holders=['north', 'south'], schema='claims')

    `holders`: the table of each, by name; a data frame or the path of a file.
    `schema`: what rows, sides and classes are; also a TOML file, or its content.
    `rules`: of holders that have rules of their own, a TOML file or a list of rules, by name.
    `limit`: the ε that a holder allows in total, for all or by name; if a holder has none, that of
    the first detector that is fitted becomes its limit.
    `workers`: processes besides this one; with any, a script needs `if __name__ == "__main__":`.
    `folder`: what the parties keep is in memory, or sealed in this folder.  There it outlives this
    process, so that the ledgers count all runs.
    `key_file`: unlocks the folder; by default as `Detector.save` says.
    """
    settled, own = given_schema(schema), given_rules(rules, holders)
    records, limits = given_records(settled, holders, own), given_limits(limit, holders)
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        if folder is None:
            stores: Mapping[str, Store] = parties.memory_stores(records)
        else:
            passphrase = given_passphrase(Path(folder), key_file, new=True)
            opened = RunFolder(Path(folder)).stores(
                parties.party_names(records), passphrase, create=True
            )
            stores = stack.enter_context(opened)
        federation = Federation(
            settled, records, rules=own, stores=stores, pool=pool, resources=stack.pop_all()
        )
    for holder, epsilon in limits.items():
        federation._set_limit(holder, epsilon)
    return federation


def connect(folder: Path | str) -> Federation:
    """Not offered yet: over Flower, the aggregator starts the jobs of a deployed federation."""
    raise ParameterError(
        f"connect({str(folder)!r}): the jobs of a deployed federation are started at its aggregator"
        " (pv4fad federation start), with the files that the payment network's party.toml names; a"
        " Python process cannot lead them over Flower"
    )


class Federation:
    """A lead, its holders and an aggregator; made by `simulate`, and ended by its `with` block.

    Each party has a store and keys of its own, and they exchange the same messages as on separate
    machines.

    >>> federation.holders
    ('north', 'south')
    >>> federation.ledgers
    holder  spent  limit  left
    north       0      3     3
    south       0      3     3
    """

    def __init__(
        self,
        schema: Schema,
        records: Mapping[str, pl.DataFrame],
        *,
        rules: Mapping[str, Rules],
        stores: Mapping[str, Store],
        pool: WorkerPool,
        resources: ExitStack,
    ) -> None:
        self.schema = schema
        self.rules = dict(rules)
        self._records = dict(records)
        self._stores = dict(stores)
        self._pool = pool
        self._resources = resources
        self._parties: Parties | None = None
        self._runs: dict[str, RunDocument] = {}

    def __repr__(self) -> str:
        return f"Federation(holders={list(self.holders)}, schema={self.schema.name!r})"

    @property
    def holders(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._records)

    @property
    def ledgers(self) -> Ledgers:
        """What each holder has spent of ε, and its limit."""
        stores = self.stores
        return Ledgers({holder: read_ledger(stores[holder]) for holder in self.holders})

    def set_limit(self, holder: str, epsilon: Limit) -> None:
        """Let a holder allow so much ε in total, over all runs; 'none' is no limit.

        >>> federation.set_limit("north", 5)
        >>> federation.ledgers["north"].limit
        Fraction(5, 1)
        """
        by_holder("limit", {holder: epsilon}, self.holders)
        self._set_limit(holder, given_limit(holder, epsilon))

    def refresh(self, holders: Mapping[str, Source] | None = None) -> Self:
        """Match all accounts again, with new keys: records have changed, or keys are old.

        `holders`: the new table of each holder whose records have changed.  No ε is spent.  The
        lead forgets the answers that it was given, and may ask about an account once more.

        >>> _ = federation.refresh({"north": hospitals["north"]})
        """
        if holders:
            given = by_holder("holders", holders, self.holders)
            changed = given_records(self.schema, given, self.rules)
            records = {name: changed.get(name, frame) for name, frame in self._records.items()}
            bank_directory(records)
            self._records, self._parties = records, None
        for run in self._runs.values():
            refreshing.refresh(self._led(), run.parameters, self._directory, Meter())
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes and forget what is in memory."""
        self._resources.close()
        self._stores, self._parties = {}, None

    # For detectors.

    @property
    def stores(self) -> Mapping[str, Store]:
        """What each party keeps, by its name; sealed where it is on disk."""
        if not self._stores:
            raise StoreError("the federation is closed: use it inside its with block")
        return self._stores

    def read_rows(self, rows: Source, *, labels_required: bool) -> pl.DataFrame:
        """The lead's rows, checked."""
        return load_rows(self.schema, given_table(rows), labels_required=labels_required)

    def train(self, rows: pl.DataFrame, settings: TrainingSettings) -> RunDocument:
        """A new run on checked rows; holders spend ε."""
        stores, meter = self.stores, Meter()
        sizes = {holder: frame.height for holder, frame in self._records.items()}
        new = prepare_run(LeadData(self.schema, rows, self._directory), sizes, settings)
        for holder in self.holders:
            if read_ledger(stores[holder]).limit is None:
                self._set_limit(holder, settings.exact_epsilon)
        try:
            run = training.train(self._led(), new, training.new_document(new, meter), meter)
        except BudgetError as error:
            raise BudgetError(f"{error}; in Python: federation.set_limit(HOLDER, ...)") from None
        self.add(run)
        return run

    def add(self, run: RunDocument) -> None:
        """A run that the parties have finished: it takes part in a refresh."""
        self._runs[run.run_id] = run

    def score(
        self, run: RunDocument, history: pl.DataFrame, rows: pl.DataFrame, how: How
    ) -> Scored:
        """Predictions for checked rows; `history`: those that the run was trained on."""
        led, new = self._led(), new_rows(self.schema, rows, history)
        return scoring.score(led, run.parameters, new, self._directory, how=how, meter=Meter())

    @property
    def records(self) -> Mapping[str, pl.DataFrame]:
        """Of each holder: Holder, Id, Class."""
        return self._records

    @property
    def _directory(self) -> dict[str, str]:
        return bank_directory(self._records)

    def _led(self) -> Parties:
        """The parties, made when they are first needed."""
        stores = self.stores
        if self._parties is None:
            self._parties = parties.simulate(
                all_records(self.schema, self._records),
                self._pool,
                stores=stores,
                first_limit=None,
                honest_banks=len(self._records),  # the detector decides
            )
        return self._parties

    def _set_limit(self, holder: str, epsilon: Epsilon) -> None:
        with self.stores[holder].transaction() as tx:
            set_limit(tx, epsilon, datetime.now(UTC))


class Ledgers(Mapping[str, Ledger]):
    """The privacy ledger of each holder, by name."""

    def __init__(self, ledgers: Mapping[str, Ledger]) -> None:
        self._ledgers = dict(ledgers)

    def __getitem__(self, holder: str) -> Ledger:
        return self._ledgers[holder]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ledgers)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __repr__(self) -> str:
        heads = ("holder", "spent", "limit", "left")
        lines = [heads, *(_line(holder, ledger) for holder, ledger in self.items())]
        first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
        return "\n".join(
            "  ".join([name.ljust(first), *map(str.rjust, amounts, others)])
            for name, *amounts in lines
        )


def _line(holder: str, ledger: Ledger) -> tuple[str, ...]:
    limit = "not set" if ledger.limit is None else epsilon_text(ledger.limit)
    return holder, epsilon_text(ledger.spent), limit, epsilon_text(ledger.left)
