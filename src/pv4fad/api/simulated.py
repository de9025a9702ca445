"""A federation on this machine: the lead, its holders and the aggregator, all in this process.

A holder's table becomes classes here, and nothing else of it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import polars as pl

from pv4fad.api.arguments import (
    Limit,
    RulesLike,
    SchemaLike,
    Source,
    by_holder,
    given_holders,
    given_limit,
    given_limits,
    given_passphrase,
    given_policies,
    given_records,
    given_rules,
    given_schema,
)
from pv4fad.api.federation import Federation, Ledgers
from pv4fad.errors import BudgetError, StoreError
from pv4fad.lead import refresh as refreshing
from pv4fad.lead import score as scoring
from pv4fad.lead import simulate as parties
from pv4fad.lead import train as training
from pv4fad.lead.data import all_records, bank_directory
from pv4fad.lead.federation import Federation as Parties
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.score import How, Scored
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import read_ledger, set_limit
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.rules import Rules
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter
from pv4fad.schema import Schema
from pv4fad.store.file import holds_store
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool, Workers


def simulate(
    holders: Mapping[str, Source],
    schema: SchemaLike = SCHEMA,
    *,
    rules: Mapping[str, RulesLike] | None = None,
    limit: Limit | Mapping[str, Limit] | None = None,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
    workers: Workers = 0,
    folder: Path | str | None = None,
    key_file: Path | str | None = None,
) -> SimulatedFederation:
    """A federation of these holders on this machine, with real cryptography.

    >>> federation = pv4fad.simulate(hospitals, claims_schema, limit=3)
    >>> federation
    Federation(holders=['north', 'south'], schema='claims')

    `holders`: the table of each, by name; a data frame or the path of a file.
    `schema`: what rows, sides and classes are; also a TOML file, or its content.
    `rules`: of holders that have rules of their own, a TOML file or a list of rules, by name.
    `limit`: the ε that a holder allows in total, for all or by name; if a holder has none, that of
    the first detector that is fitted becomes its limit.
    `policies`: of holders that have one, what they take part in, such as `{"epsilon": 1}`; the
    entries are those of `[policy]` in a deployed party's party.toml.
    `workers`: processes besides this one; with any, a script needs `if __name__ == "__main__":`.
    Or "ray", or the address of a Ray cluster.
    `folder`: what the parties keep is in memory, or sealed in this folder.  There it outlives this
    process, so that the ledgers count all runs.
    `key_file`: unlocks the folder; by default as `Detector.save` says.
    """
    tables, settled = given_holders(holders), given_schema(schema)
    own, limits = given_rules(rules, tables), given_limits(limit, tables)
    records = given_records(settled, tables, own)
    own_policies = given_policies(policies, tables)
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        if folder is None:
            stores: Mapping[str, Store] = parties.memory_stores(records)
        else:
            place, names = Path(folder), parties.party_names(records)
            new = not any(holds_store(place / name) for name in names)
            passphrase = given_passphrase(place, key_file, new=new)
            opened = RunFolder(place).stores(names, passphrase, create=True)
            stores = stack.enter_context(opened)
        federation = SimulatedFederation(
            settled,
            records,
            rules=own,
            policies=own_policies,
            stores=stores,
            pool=pool,
            resources=stack.pop_all(),
        )
    for holder, epsilon in limits.items():
        federation._set_limit(holder, epsilon)
    return federation


class SimulatedFederation(Federation):
    """All parties are in this process."""

    def __init__(
        self,
        schema: Schema,
        records: Mapping[str, pl.DataFrame],
        *,
        rules: Mapping[str, Rules],
        policies: Mapping[str, Policy],
        stores: Mapping[str, Store],
        pool: WorkerPool,
        resources: ExitStack,
    ) -> None:
        super().__init__(schema, resources)
        self.rules = dict(rules)
        self._policies = dict(policies)
        self._records = dict(records)
        self._stores = dict(stores)
        self._pool = pool
        self._parties: Parties | None = None
        self._runs: dict[str, RunDocument] = {}

    @property
    def holders(self) -> tuple[str, ...]:
        return tuple(self._records)

    @property
    def ledgers(self) -> Ledgers:
        stores = self.stores
        return Ledgers({holder: read_ledger(stores[holder]) for holder in self.holders})

    def set_limit(self, holder: str, epsilon: Limit) -> None:
        by_holder("limit", {holder: epsilon}, self.holders)
        self._set_limit(holder, given_limit(holder, epsilon))

    def refresh(self, holders: Mapping[str, Source] | None = None) -> Self:
        if holders:
            given = by_holder("holders", holders, self.holders)
            changed = given_records(self.schema, given, self.rules)
            records = {name: changed.get(name, frame) for name, frame in self._records.items()}
            bank_directory(records)
            self._records, self._parties = records, None
        for run in self._runs.values():
            refreshing.refresh(self._led(), run.parameters, self._directory, Meter())
        return self

    def close(self) -> None:
        super().close()
        self._stores, self._parties = {}, None

    # For detectors.

    @property
    def stores(self) -> Mapping[str, Store]:
        """What each party keeps, by its name; sealed where it is on disk."""
        if not self._stores:
            raise StoreError("the federation is closed: use it inside its with block")
        return self._stores

    @property
    def lead_store(self) -> Store:
        return self.stores[PAYMENT_NETWORK]

    def train(self, rows: pl.DataFrame, settings: TrainingSettings) -> RunDocument:
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
                policies=self._policies,
            )
        return self._parties

    def _set_limit(self, holder: str, epsilon: Epsilon) -> None:
        with self.stores[holder].transaction() as tx:
            set_limit(tx, epsilon, datetime.now(UTC))
