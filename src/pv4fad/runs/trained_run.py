"""A model whose parties can be reached: it scores, and it matches anew.

Everything here can be interrupted at any moment and asked for again: what is under way is carried
on, what is over is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.federation import LedFederation, match_parameters
from pv4fad.parties.bank import Bank
from pv4fad.parties.party import RunRecords
from pv4fad.parties.scoring_tables import ScoringInput
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.tables import AccountKey, assign_tables
from pv4fad.runs.meter import Report
from pv4fad.runs.scoring_job import JobNotes, ScoringJob
from pv4fad.runs.scoring_meter import MATCH, SCORE, ScoringMeter, messages_of_match
from pv4fad.runs.scoring_rows import Batching, ScoringRows


class TrainedRun:
    """The parties of a run after training."""

    def __init__(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        report: Report = lambda _: None,
    ) -> None:
        """`directory`: BIC → bank of the federation."""
        self.meter = ScoringMeter(report)
        self.layers = 0
        """Layers that every table has been asked for so far."""
        self._federation = federation
        self._network = federation.payment_network
        self._model = parameters
        self._run_id = parameters.run_id
        self._directory = dict(directory)
        self._notes = JobNotes(self._network.store, self._run_id)

    # Scoring.

    def votes(self, rows: ScoringRows, batching: Batching) -> NDArray[np.int64]:
        """The vote total of each side of each transaction, (transactions, 2).

        The results stay with the payment network until `finish_scoring`.
        """
        self.require_same_accounts()
        self._carry_on()
        self._notes.write_renewal(None)
        job = self._match_new_accounts(rows, self._job(rows, batching))
        starts = range(0, len(rows), job.batch_size)
        parts = [np.zeros((0, 2), np.int64)]
        for number, start in enumerate(starts):
            data = rows.batch(slice(start, start + job.batch_size), batching.layers)
            job, votes = self._score(data, job, number, n_left=len(starts) - number)
            parts.append(votes)
        self.meter.stop()
        return np.concatenate(parts)

    def finish_scoring(self) -> None:
        """The results are in safe hands: the payment network forgets them."""
        self._notes.clear()

    def _job(self, rows: ScoringRows, batching: Batching) -> ScoringJob:
        """The scoring of these transactions that was interrupted, or a new one."""
        job = self._notes.read()
        if job is not None and job.transactions == rows.fingerprint:
            return job
        self._drop_job()
        job = ScoringJob(transactions=rows.fingerprint, batch_size=batching.transactions)
        return self._notes.write(job)

    def _drop_job(self) -> None:
        job = self._notes.read()
        for batch in () if job is None else job.batches:
            self._network.close(self._run_id, batch)
        self._notes.clear()

    def _match_new_accounts(self, rows: ScoringRows, job: ScoringJob) -> ScoringJob:
        """Always, also where there are none: nobody can tell whether there were."""
        if job.match in self._network.matches(self._run_id):
            return job
        everywhere, *deltas = self._network.matched_accounts(self._run_id)
        since = dict.fromkeys(key for delta in deltas for key in delta)
        since |= dict.fromkeys(rows.keys)
        known = set(everywhere)
        job = job.model_copy(update={"match": self._network.next_epoch(self._run_id)})
        self._notes.write(job)
        self._match([key for key in since if key not in known], replace=False)
        return job

    def _score(
        self, data: ScoringInput, job: ScoringJob, number: int, n_left: int
    ) -> tuple[ScoringJob, NDArray[np.int64]]:
        """One batch, or as much of it as is left to do."""
        run_id, network = self._run_id, self._network
        epoch = job.batches[number] if number < len(job.batches) else None
        votes = self._notes.votes(number)
        if votes is None:
            if epoch is None or not network.is_scored(run_id, epoch):
                epoch = network.next_epoch(run_id)
                job = job.model_copy(update={"batches": (*job.batches[:number], epoch)})
                self._notes.write(job)
                _, queries = network.score(run_id, data)
                size = network.batch_size(run_id, epoch)
                self.meter.expect(SCORE, size.messages * n_left)
                self._federation.deliver(queries, self.meter)
                self.layers += size.layers
            votes = network.votes(run_id, epoch)
            self._notes.keep_votes(number, votes)
        if epoch is not None:
            network.close(run_id, epoch)
        return job, votes

    # Matching.

    def match_anew(self) -> None:
        """All accounts met so far, with the banks' present records and new keys everywhere.

        An interrupted scoring is dropped: its batches would not all show the same records.
        """
        self._carry_on()
        network, run_id = self._network, self._run_id
        renewal = self._notes.renewal()
        if renewal not in network.matches(run_id) or self._changed_accounts():
            self._drop_job()
            keys = [key for match in network.matched_accounts(run_id) for key in match]
            self._notes.write_renewal(network.next_epoch(run_id))
            self._match(keys, replace=True)
        self._notes.write_renewal(None)
        self.meter.stop()

    def _match(self, keys: Sequence[AccountKey], *, replace: bool) -> None:
        epoch = self._network.next_epoch(self._run_id)
        tables = assign_tables(
            keys,
            self._directory,
            self._model.sizes.n_trees,
            broadcast=any(plan.broadcast for plan in self._model.tables),
        )
        accounts = self._federation.bank_accounts
        parameters, named = match_parameters(self._model, tables, accounts, epoch)
        self.meter.expect(MATCH, messages_of_match(parameters))
        self._federation.rematch(parameters, named, replace=replace, observer=self.meter)

    # What is under way.

    def _carry_on(self) -> None:
        """The match or batch that was interrupted, to its end."""
        epoch = self._network.epoch_under_way(self._run_id)
        if epoch is None:
            return
        if epoch in self._network.matches(self._run_id) or all(
            self._account_file(bank, epoch) in (None, bank.account_file)
            for bank in self._federation.banks
        ):
            self._federation.resume(self.meter)
        else:
            # One half of a table with one version of the accounts, one half with another: no.
            self._network.close(self._run_id, epoch)

    def require_same_accounts(self) -> None:
        """The banks' account files are those that were matched last."""
        changed = self._changed_accounts()
        if changed:
            raise DataError(
                f"the account file of {', '.join(changed)} is not the one that was matched last: "
                "have all accounts matched anew (pv4fad match refresh)"
            )

    def _changed_accounts(self) -> list[str]:
        """The banks whose files are not those of the match in force."""
        everywhere = self._network.matches(self._run_id)[0]
        return [
            bank.name
            for bank in self._federation.banks
            if self._account_file(bank, everywhere) != bank.account_file
        ]

    def _account_file(self, bank: Bank, epoch: int) -> str | None:
        """The version of its account file that a bank began a match with."""
        with bank.store.transaction() as tx:
            noted = RunRecords(tx, self._run_id, epoch).find("account file")
            return None if noted is None else noted.decode()
