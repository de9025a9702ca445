"""Ask the banks about accounts of payments: rounds of questions, or batches for votes.

Everything here can be interrupted at any moment and asked for again: what is under way is carried
on, what is over is not repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import BudgetError, OrderError, ParameterError
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.refresh import Matching
from pv4fad.lead.scoring_job import JobNotes, ScoringJob
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.inputs import AskedSet, Round, ScoringInput
from pv4fad.protocol.tables import AccountKey
from pv4fad.run.meter import SCORE, Meter
from pv4fad.run.scoring_record import Learned


class Asking(Protocol):
    """Decides which accounts to ask about, round by round; round i is about the i-th set."""

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        """One for each round; the same for every batch."""

    def ask(self, number: int) -> NDArray[np.int64]:
        """The accounts to ask about in this round, each once; depends on earlier answers."""

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        """Their answers."""


class Judge(Asking, Protocol):
    """Judges some payments by questions, with the payment network's own data and the answers.

    The trusted third party uses the same judges with answers from the clear (`verify`).
    """

    def begin(self, known: NDArray[np.int8]) -> None:
        """`known`: (accounts, sets), the answers of earlier scorings; -1 for none."""

    def table(self) -> pl.DataFrame:
        """The predictions, after the last round."""

    def learned(self) -> Learned:
        """What the answers told the payment network, after the last round."""


@dataclass(frozen=True)
class Batching:
    """How transactions are put to the banks for votes; the votes do not depend on it."""

    transactions: int = 1_000_000
    """In one batch."""
    layers: int = 15
    """Public: banks are asked for a multiple of so many layers, however few a batch needs."""

    def __post_init__(self) -> None:
        if self.transactions < 1:
            raise ParameterError(f"batch {self.transactions}: give at least 1")
        if self.layers < 1:
            raise ParameterError(f"layers {self.layers}: give at least 1")


class Scoring:
    """One scoring of a trained run; `directory`: a holder, as rows call it → its party."""

    def __init__(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        meter: Meter,
    ) -> None:
        self.layers = 0
        """Layers that every table has been asked for so far."""
        self.positive_answers = Counter[str](dict.fromkeys(parameters.banks, 0))
        """Metered: of each bank so far; the aggregator learns that."""
        self._directory = directory
        self._federation = federation
        self._network = federation.payment_network
        self._model = parameters
        self._run_id = parameters.run_id
        self._meter = meter
        self._matching = Matching(federation, parameters, directory, meter)
        self._notes = JobNotes(self._network.store, self._run_id)

    def begin(
        self, fingerprint: str, keys: Sequence[AccountKey], *, n_sets: int = 0, batch_size: int = 1
    ) -> None:
        """Carry on the scoring of these transactions, or begin one; match accounts that are new.

        `fingerprint`: of the transactions and of how they are scored.  `n_sets`: to ask about;
        `batch_size`: of votes.
        """
        self._matching.require_same_accounts()
        self._matching.carry_on()
        self._notes.write_refresh(None)
        job = self._notes.read()
        if job is None or job.transactions != fingerprint:
            self._notes.end()
            job = self._notes.write(
                ScoringJob(transactions=fingerprint, batch_size=batch_size, n_sets=n_sets)
            )
        self._match_new_accounts(keys, job)

    def known_bits(self, keys: Sequence[AccountKey], n_sets: int) -> NDArray[np.int8]:
        """(accounts, sets): what earlier scorings of this epoch were told; -1 for nothing."""
        return self._notes.known_bits(keys, n_sets)

    def ask(self, keys: Sequence[AccountKey], asking: Asking) -> None:
        """All rounds of questions.  What was learnt stays noted until `finish`."""
        job, sets = self._under_way(), tuple(asking.sets)
        for number in range(len(sets)):
            accounts = asking.ask(number)
            asked = [keys[account] for account in accounts]
            bits = self._notes.answers(number)
            if bits is None:
                data = Round(asked, sets[number : number + 1], np.zeros(len(asked), np.int64))
                job = self._ask_round(data, job, number, n_left=len(sets) - number)
                bits = self._collect(job, number)
            if not self._notes.was_about(number, asked):
                # Answers have no names: to other accounts they must not be given.
                raise OrderError(
                    f"round {number + 1} was begun with other questions, by another version of the"
                    " program or on another machine: carry on there, or match all again"
                    " (pv4fad refresh)"
                )
            asking.take(number, accounts, bits)
            if self._model.metered:
                positive = (key[0] for key, bit in zip(asked, bits, strict=True) if bit)
                self.positive_answers.update(self._directory[name] for name in positive if name)
        self._meter.stop()

    def votes(
        self,
        codes: NDArray[np.int32],
        keys: Sequence[AccountKey],
        key_of: NDArray[np.int64],
        layers: int,
    ) -> NDArray[np.int64]:
        """The vote total of each side of each transaction, (transactions, sides).

        The results stay with the payment network until `finish`.
        """
        job = self._under_way()
        starts = range(0, len(codes), job.batch_size)
        parts = [np.zeros((0, key_of.shape[1]), np.int64)]
        for number, start in enumerate(starts):
            rows = slice(start, start + job.batch_size)
            used, numbers = np.unique(key_of[rows], return_inverse=True)
            asked = [keys[key] for key in used]
            data = ScoringInput(codes[rows], asked, numbers.reshape(-1, key_of.shape[1]), layers)
            votes = self._notes.answers(number)
            if votes is None:
                job = self._ask_batch(data, job, number, n_left=len(starts) - number)
                votes = self._collect(job, number)
            parts.append(votes)
        self._meter.stop()
        return np.concatenate(parts)

    def finish(self) -> None:
        """The results are stored elsewhere: the payment network forgets them, but not the bits."""
        self._notes.end()

    def n_known(self) -> tuple[int, int]:
        """Accounts of which some bit is known in this epoch, and those with a positive one."""
        return self._notes.n_known()

    def _under_way(self) -> ScoringJob:
        job = self._notes.read()
        if job is None:
            raise OrderError("no scoring has been begun")
        return job

    def _match_new_accounts(self, wanted: Sequence[AccountKey], job: ScoringJob) -> ScoringJob:
        """Always, also if there are none, so that the banks cannot tell whether there were any."""
        if job.match in self._network.matches(self._run_id):
            return job
        job = job.model_copy(update={"match": self._network.next_epoch(self._run_id)})
        self._notes.write(job)
        self._matching.match_new(wanted)
        return job

    def _ask_round(self, data: Round, job: ScoringJob, number: int, n_left: int) -> ScoringJob:
        """One round, if it has not been answered already; which accounts it is about is noted."""
        if self._is_answered(job, number):
            return job
        job = self._with_batch(job, number)
        self._notes.note_round(job, number, data.keys)
        self._deliver(data, job, number, n_left)
        return job

    def _ask_batch(
        self, data: ScoringInput, job: ScoringJob, number: int, n_left: int
    ) -> ScoringJob:
        """One batch of votes, if it has not been answered already."""
        if self._is_answered(job, number):
            return job
        job = self._notes.write(self._with_batch(job, number))
        self._deliver(data, job, number, n_left)
        return job

    def _is_answered(self, job: ScoringJob, number: int) -> bool:
        begun = number < len(job.batches)
        return begun and self._network.is_scored(self._run_id, job.batches[number])

    def _with_batch(self, job: ScoringJob, number: int) -> ScoringJob:
        """The next match or batch is the n-th batch of this scoring."""
        epoch = self._network.next_epoch(self._run_id)
        return job.model_copy(update={"batches": (*job.batches[:number], epoch)})

    def _deliver(
        self, data: Round | ScoringInput, job: ScoringJob, number: int, n_left: int
    ) -> None:
        _, queries = self._network.score(self._run_id, data)
        size = self._network.batch_size(self._run_id, job.batches[number])
        self._meter.expect(SCORE, size.messages * n_left)
        self._federation.deliver(queries, self._meter)
        self.layers += size.layers

    def _collect(self, job: ScoringJob, number: int) -> NDArray[np.int64]:
        """The answers of a batch, kept in the notes; the batch itself is forgotten."""
        epoch = job.batches[number]
        taken = self._network.votes if self._model.mode == "sealed" else self._network.bits
        try:
            answers = taken(self._run_id, epoch).astype(np.int64)
        except BudgetError:  # metered: the next scoring asks again, once a person has acted
            self._notes.end()
            raise
        self._notes.keep_answers(number, answers)
        self._network.close(self._run_id, epoch)
        return answers
