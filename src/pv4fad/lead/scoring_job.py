"""What the payment network notes about a scoring under way, so that nothing is asked twice.

    note the number of the match or batch that comes next  →  begin it  →  carry it through
    →  keep the answers  →  forget the batch

Killed anywhere in between, the number tells what has happened: it is not begun, under way or over.
One scoring at a time; other transactions than those noted begin a new one.  A refresh is noted in
the same way.

Bits about accounts outlive a scoring: they are kept until the next refresh, so that each account
and set is asked about at most once until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.questions import UNKNOWN
from pv4fad.parties.network_epochs import close_epoch
from pv4fad.parties.network_scoring import bits_so_far
from pv4fad.parties.party import RunRecords
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel

_JOB = "scoring"
_ASKED = "scoring asked/"
_ANSWERS = "scoring answers/"
_REFRESH = "refresh"
_KNOWN = "known bits"


class ScoringJob(ValidatedModel):
    """How far a scoring is."""

    transactions: str
    """Fingerprint of what is scored, and how."""
    batch_size: int
    """Of votes."""
    n_sets: int
    """That accounts are asked about, one in each round; 0 for votes."""
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
            return _read(records)

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
            records.put(f"{_ASKED}{number}", _ids(keys))

    def was_about(self, number: int, keys: Sequence[AccountKey]) -> bool:
        """Whether round `number` was about these accounts, in this order."""
        with self._records() as records:
            return records.get(f"{_ASKED}{number}") == _ids(keys)

    def end(self) -> None:
        """No scoring is under way any more; what it learnt about accounts is kept.

        Also of one that is given up in the middle of a round: some banks have answered.
        """
        with self._store.transaction() as tx:
            records = RunRecords(tx, self._run_id)
            known = _known_bits(records)
            if known.ids:
                known.store(_of_match(records))
            job = _read(records)
            for batch in () if job is None else job.batches:
                close_epoch(self._run_id, batch, tx)
            records.delete(_JOB)
            records.delete_all(_ASKED, _ANSWERS)

    # Bits that are known in this epoch.

    def known_bits(self, keys: Sequence[AccountKey], n_sets: int) -> NDArray[np.int8]:
        """(accounts, sets): what scorings before this one were told; -1 for nothing."""
        with self._records() as records:
            known = _Known.stored(_of_match(records), n_sets)
        row = {account: number for number, account in enumerate(known.ids)}
        padded = np.concatenate([known.bits, np.full((1, n_sets), UNKNOWN, np.int8)])
        return padded[[row.get(hashed_id(key), -1) for key in keys]]

    def n_known(self) -> tuple[int, int]:
        """The accounts about which some bit is known, and how many of these have a positive one.

        With what the scoring under way was told.
        """
        with self._records() as records:
            bits = _known_bits(records).bits
        return int((bits != UNKNOWN).any(axis=1).sum()), int((bits == 1).any(axis=1).sum())

    # A refresh.

    def refresh(self) -> int | None:
        """The match of a refresh that was begun, or was just about to be."""
        with self._records() as records:
            noted: int | None = records.find_json(_REFRESH, None)
            return noted

    def write_refresh(self, match: int | None) -> None:
        """None: it is over."""
        with self._records() as records:
            records.put_json(_REFRESH, match)

    @contextmanager
    def _records(self) -> Iterator[RunRecords]:
        with self._store.transaction() as tx:
            yield RunRecords(tx, self._run_id)


@dataclass(frozen=True)
class _Known:
    """Bits about accounts, (accounts, sets)."""

    ids: list[bytes] = field(repr=False)
    bits: NDArray[np.int8] = field(repr=False)

    @classmethod
    def stored(cls, records: RunRecords, n_sets: int) -> _Known:
        raw = records.find(f"{_KNOWN}/ids")
        if not raw:
            return cls([], np.full((0, n_sets), UNKNOWN, np.int8))
        return cls(raw.split(b"\n"), records.get_arrays(f"{_KNOWN}/bits")["bits"])

    def store(self, records: RunRecords) -> None:
        records.put(f"{_KNOWN}/ids", b"\n".join(self.ids))
        records.put_arrays(f"{_KNOWN}/bits", bits=self.bits)

    def and_also(self, asked: Sequence[bytes], number: int, bits: NDArray[np.integer]) -> _Known:
        """Whether each of these accounts is in set `number`."""
        row = {account: position for position, account in enumerate(self.ids)}
        new = [account for account in asked if account not in row]
        row |= {account: len(self.ids) + position for position, account in enumerate(new)}
        unknown = np.full((len(new), self.bits.shape[1]), UNKNOWN, np.int8)
        known = np.concatenate([self.bits, unknown])
        known[[row[account] for account in asked], number] = bits
        return _Known([*self.ids, *new], known)


def _ids(keys: Sequence[AccountKey]) -> bytes:
    return b"\n".join(map(hashed_id, keys))


def _known_bits(records: RunRecords) -> _Known:
    """What was known before, and what the scoring under way was told so far."""
    job = _read(records)
    known = _Known.stored(_of_match(records), 0 if job is None else job.n_sets)
    for name in records.names(_ASKED):
        number = int(name.removeprefix(_ASKED))
        bits, asked = _bits_of_round(records, job, number), records.get(name)
        if bits is not None and asked:
            known = known.and_also(asked.split(b"\n"), number, bits)
    return known


def _bits_of_round(
    records: RunRecords, job: ScoringJob | None, number: int
) -> NDArray[np.integer] | None:
    """As far as they are known; None: the round has not begun."""
    kept = records.find_arrays(f"{_ANSWERS}{number}")
    if kept is not None:
        return kept["answers"]
    if job is None or number >= len(job.batches):
        return None
    batch = records.of_epoch(job.batches[number])
    return None if batch.find("questions") is None else bits_so_far(batch)


def _read(records: RunRecords) -> ScoringJob | None:
    noted = records.find_json(_JOB, None)
    return None if noted is None else ScoringJob(**noted)


def _of_match(training: RunRecords) -> RunRecords:
    """Where what is known is kept: with the match of all accounts, which is forgotten with it."""
    return training.of_epoch(training.get_json("matches")[0])
