"""What the payment network notes about a scoring under way, so that nothing is asked twice.

    note the number of the match or batch that comes next  →  begin it  →  carry it through
    →  keep the votes  →  forget the batch

Killed anywhere in between, the number tells what has happened: it is not begun, under way or over.
One scoring at a time; other transactions than those noted begin a new one.  A match of all accounts
anew is noted in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.validated import ValidatedModel
from pv4fad.parties.party import RunRecords
from pv4fad.parties.store import Store

_JOB = "scoring"
_VOTES = "scoring votes/"
_RENEWAL = "renewal"


class ScoringJob(ValidatedModel):
    """How far a scoring is."""

    transactions: str
    """Fingerprint of what is scored."""
    batch_size: int
    match: int | None = None
    """The match for new accounts that this scoring makes first."""
    batches: tuple[int, ...] = ()
    """The batches begun, or just about to be."""


class JobNotes:
    """The notes about the scoring of a run, in the payment network's store."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id

    def read(self) -> ScoringJob | None:
        """The scoring under way."""
        with self._records() as records:
            noted = records.find_json(_JOB, None)
            return None if noted is None else ScoringJob(**noted)

    def write(self, job: ScoringJob) -> ScoringJob:
        with self._records() as records:
            records.put_json(_JOB, job.model_dump(mode="json"))
        return job

    def keep_votes(self, batch: int, votes: NDArray[np.int64]) -> None:
        """The votes of the n-th batch."""
        with self._records() as records:
            # A vote total is at most the number of trees.
            records.put_arrays(f"{_VOTES}{batch}", votes=votes.astype(np.int16))

    def votes(self, batch: int) -> NDArray[np.int64] | None:
        """The votes of the n-th batch, if it is over."""
        with self._records() as records:
            kept = records.find_arrays(f"{_VOTES}{batch}")
            return None if kept is None else kept["votes"].astype(np.int64)

    def clear(self) -> None:
        """No scoring is under way any more."""
        with self._records() as records:
            records.delete(_JOB)
            records.delete_all(_VOTES)

    def renewal(self) -> int | None:
        """The match of all accounts anew that was begun, or was just about to be."""
        with self._records() as records:
            noted: int | None = records.find_json(_RENEWAL, None)
            return noted

    def write_renewal(self, match: int | None) -> None:
        """None: it is over."""
        with self._records() as records:
            records.put_json(_RENEWAL, match)

    @contextmanager
    def _records(self) -> Iterator[RunRecords]:
        with self._store.transaction() as tx:
            yield RunRecords(tx, self._run_id)
