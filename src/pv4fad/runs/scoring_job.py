"""What the payment network notes about a scoring under way, so that nothing is asked twice.

    note the number of the match or batch that comes next  →  begin it  →  carry it through
    →  keep the answers  →  forget the batch

Killed anywhere in between, the number tells what has happened: it is not begun, under way or over.
One scoring at a time; other transactions than those noted begin a new one.  A match of all accounts
anew is noted in the same way.

Bits about accounts outlive a scoring: they are kept until all accounts are matched anew, so that
each account and set is asked about at most once until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.validated import ValidatedModel
from pv4fad.parties.party import RunRecords
from pv4fad.parties.store import Store
from pv4fad.protocol.tables import AccountKey, hashed_id

_JOB = "scoring"
_ASKED = "scoring asked/"
_ANSWERS = "scoring answers/"
_RENEWAL = "renewal"
_KNOWN = "known bits"

UNKNOWN = -1


class ScoringJob(ValidatedModel):
    """How far a scoring is."""

    transactions: str
    """Fingerprint of what is scored, and how."""
    batch_size: int
    match: int | None = None
    """The match for new accounts that this scoring makes first."""
    batches: tuple[int, ...] = ()
    """The batches begun, or just about to be: rounds of questions, or transactions for votes."""


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

    def keep_answers(self, batch: int, answers: NDArray[np.signedinteger]) -> None:
        """The bits or votes of the n-th batch."""
        with self._records() as records:
            # A vote total is at most the number of trees.
            records.put_arrays(f"{_ANSWERS}{batch}", answers=answers.astype(np.int16))

    def answers(self, batch: int) -> NDArray[np.int64] | None:
        """The bits or votes of the n-th batch, if it is over."""
        with self._records() as records:
            kept = records.find_arrays(f"{_ANSWERS}{batch}")
            return None if kept is None else kept["answers"].astype(np.int64)

    def note_round(self, job: ScoringJob, number: int, keys: Sequence[AccountKey]) -> None:
        """The next batch is round `number` of the questions, about these accounts."""
        with self._records() as records:
            records.put_json(_JOB, job.model_dump(mode="json"))
            records.put(f"{_ASKED}{number}", b"\n".join(map(hashed_id, keys)))

    def end(self, n_sets: int = 0) -> None:
        """No scoring is under way any more; what it learnt about accounts is kept.

        `n_sets`: how many sets there are to ask about; round i asks about the i-th.
        """
        with self._records() as records:
            for name in records.names(_ASKED):
                number = int(name.removeprefix(_ASKED))
                answers = records.find_arrays(f"{_ANSWERS}{number}")
                if answers is not None and records.get(name):
                    asked = records.get(name).split(b"\n")
                    _learn(_of_match(records), asked, number, n_sets, answers["answers"])
            records.delete(_JOB)
            records.delete_all(_ASKED, _ANSWERS)

    # Bits that are known in this epoch.

    def known_bits(self, keys: Sequence[AccountKey], n_sets: int) -> NDArray[np.int8]:
        """(accounts, sets): -1 where nothing is known."""
        with self._records() as records:
            ids, bits = _read_known(_of_match(records), n_sets)
        row = {one: number for number, one in enumerate(ids)}
        padded = np.concatenate([bits, np.full((1, n_sets), UNKNOWN, np.int8)])
        return padded[[row.get(hashed_id(key), -1) for key in keys]]

    def n_known(self, n_sets: int) -> tuple[int, int]:
        """The accounts about which some bit is known, and how many of these have a positive one."""
        with self._records() as records:
            _, bits = _read_known(_of_match(records), n_sets)
        return int((bits != UNKNOWN).any(axis=1).sum()), int((bits == 1).any(axis=1).sum())

    # A match of all accounts anew.

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


def _of_match(training: RunRecords) -> RunRecords:
    """Where what is known is kept: with the match of all accounts, which is forgotten with it."""
    return training.of_epoch(training.get_json("matches")[0])


def _read_known(records: RunRecords, n_sets: int) -> tuple[list[bytes], NDArray[np.int8]]:
    raw = records.find(f"{_KNOWN}/ids")
    if not raw:
        return [], np.full((0, n_sets), UNKNOWN, np.int8)
    return raw.split(b"\n"), records.get_arrays(f"{_KNOWN}/bits")["bits"]


def _learn(
    records: RunRecords,
    asked: Sequence[bytes],
    number: int,
    n_sets: int,
    bits: NDArray[np.integer],
) -> None:
    """Whether each of these accounts is in set `number`."""
    ids, known = _read_known(records, n_sets)
    row = {one: position for position, one in enumerate(ids)}
    new = [one for one in asked if one not in row]
    row |= {one: len(ids) + position for position, one in enumerate(new)}
    known = np.concatenate([known, np.full((len(new), n_sets), UNKNOWN, np.int8)])
    known[[row[one] for one in asked], number] = bits
    records.put(f"{_KNOWN}/ids", b"\n".join([*ids, *new]))
    records.put_arrays(f"{_KNOWN}/bits", bits=known)
