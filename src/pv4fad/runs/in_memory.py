"""Train and score from Python, with data frames: all parties in this process, stores in memory.

    model = train(transactions, accounts, TrainingSettings(epsilon="1.0"))
    predictions = model.score(new_transactions)
    model.refresh(changed_accounts)

Frames have the types that the loaders give them (`pv4fad.data.schema`).  Everything ends with the
process; `pv4fad train` and `pv4fad score` keep runs on disk.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pv4fad.closing import Closing
from pv4fad.detection.recipe import Combiner
from pv4fad.errors import DataError
from pv4fad.he.pool import WorkerPool
from pv4fad.parties.party import PAYMENT_NETWORK
from pv4fad.parties.store import MemoryStore
from pv4fad.runs.combining import DetectionAtHand, votes_and_stacking
from pv4fad.runs.members import assemble, party_names
from pv4fad.runs.new_run import NewRun, begin_run, prepare_run
from pv4fad.runs.predictions import prediction_table
from pv4fad.runs.prepare import bank_directory, bank_records
from pv4fad.runs.scoring_rows import Batching, scoring_rows
from pv4fad.runs.settings import TrainingSettings
from pv4fad.runs.trained_run import TrainedRun


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


class Model(Closing):
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
        self._forest = new.training.forest
        self._green_labels = new.training.green_labels
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

    def score(
        self,
        transactions: pl.DataFrame,
        *,
        details: bool = False,
        combiner: Combiner | None = None,
        batching: Batching | None = None,
    ) -> pl.DataFrame:
        """MessageId and Score of each transaction, in order; see `predictions` for details.

        Features continue from the transactions that the model was trained on.  `combiner`: by
        default that of the settings.  With `stacked`, training transactions are scored too.
        """
        settings, forest = self._private.settings, self._forest
        chosen = settings.chosen_combiner if combiner is None else combiner
        store = self.stores[PAYMENT_NETWORK]
        own = DetectionAtHand(store, self.parameters.run_id, self.parameters)
        own.require(chosen, settings)
        rows = scoring_rows(transactions, self._history, forest, own.local)
        labelled = own.labelled_rows(chosen, self._history, forest, self._private.seed, rows)
        run = self._run()
        sides = votes_and_stacking(run, own, rows, labelled, batching or Batching())
        run.finish_scoring()
        return prediction_table(
            rows,
            sides,
            forest,
            self._green_labels,
            scores=own.scores(chosen, rows, sides),
            mode=self.parameters.mode,
            details=details,
        )

    def refresh(self, accounts: Mapping[str, pl.DataFrame]) -> None:
        """The banks' records have changed: match all accounts anew, with new keys."""
        if set(accounts) != set(self.parameters.banks):
            raise DataError(f"give the accounts of {', '.join(self.parameters.banks)}")
        for bank in self._federation.banks:
            bank.replace_records(bank_records(accounts[bank.name], self.parameters.atoms))
        self._directory = bank_directory(accounts)
        self._run().match_anew()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _run(self) -> TrainedRun:
        return TrainedRun(self._federation, self.parameters, self._directory)
