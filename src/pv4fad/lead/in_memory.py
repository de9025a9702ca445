"""Train and score from Python, with data frames: all parties in this process, stores in memory.

    model = train(transactions, accounts, TrainingSettings(epsilon="1.0"))
    predictions = model.score(new_transactions)
    model.refresh(changed_accounts)

Frames have the types that the loaders give them (`pv4fad.payments.schema`).  Everything ends with
the process; `pv4fad train` and `pv4fad score` keep runs on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import polars as pl

from pv4fad.errors import DataError
from pv4fad.lead.members import assemble, party_names
from pv4fad.lead.new_payments import new_payments
from pv4fad.lead.new_run import NewRun, begin_run, prepare_run
from pv4fad.lead.prepare import bank_directory, bank_records
from pv4fad.lead.score import (
    How,
    Judged,
    checked_share,
    judge_of,
    judged,
    stored_trees,
    voted,
)
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.trained_run import TrainedRun
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool


def train(
    transactions: pl.DataFrame,
    accounts: Mapping[str, pl.DataFrame],
    settings: TrainingSettings,
    *,
    workers: int = 0,
) -> Model:
    """Train on the payment network's labelled transactions and each bank's accounts.

    `workers`: processes besides this one.  With any, a script needs `if __name__ == "__main__":`
    around what it does, and the model is best used in a `with` block, which ends them.
    """
    return Model(prepare_run(transactions, accounts, settings), transactions, accounts, workers)


class Model:
    """A trained run whose parties are all in this process; made by `train`."""

    def __init__(
        self,
        new: NewRun,
        history: pl.DataFrame,
        accounts: Mapping[str, pl.DataFrame],
        workers: int,
    ) -> None:
        self.parameters = new.parameters
        self.stores = {party: MemoryStore(party) for party in party_names(accounts)}
        """What each party keeps, by name."""
        self._pool = WorkerPool(workers)
        self._private = new.private
        self._history = history
        self._directory = bank_directory(accounts)
        self._federation = assemble(
            self.stores,
            new.records,
            self._pool,
            first_limit=new.private.settings.exact_epsilon,
            honest_banks=new.parameters.honest_banks,
        )
        begin_run(self._federation, new)

    def score(self, transactions: pl.DataFrame, how: How | None = None) -> pl.DataFrame:
        """A prediction for each transaction, in order; see `predictions` for the columns.

        Features continue from the transactions that the model was trained on.
        """
        return self.judge(transactions, how).table

    def judge(self, transactions: pl.DataFrame, how: How | None = None) -> Judged:
        """The same, with what the payment network learnt on the way."""
        how = How() if how is None else how
        share = checked_share(how.alert_share, self._private.settings)
        store, run = self.stores[PAYMENT_NETWORK], self._run()
        payments = new_payments(transactions, self._history)
        judge = judge_of(store, self.parameters, payments, self._directory, share)
        if judge is None:
            found = voted(run, payments, stored_trees(store, self.parameters.run_id), how.batching)
        else:
            found = judged(run, payments, judge, f"{share} {payments.fingerprint}")
        run.finish_scoring()
        return found

    def refresh(self, accounts: Mapping[str, pl.DataFrame]) -> None:
        """The banks' records have changed: match all accounts anew, with new keys."""
        if set(accounts) != set(self.parameters.banks):
            raise DataError(f"give the accounts of {', '.join(self.parameters.banks)}")
        for bank in self._federation.banks:
            bank.replace_records(bank_records(accounts[bank.name], self.parameters.atoms))
        self._directory = bank_directory(accounts)
        self._run().match_anew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _run(self) -> TrainedRun:
        return TrainedRun(self._federation, self.parameters, self._directory)
