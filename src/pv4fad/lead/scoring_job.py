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

from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.parties.network_epochs import close_epoch
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.score.network import bits_so_far
from pv4fad.protocol.score.state import KnownBits
from pv4fad.protocol.tables import AccountKey, hashed_id
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel


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


@dataclass(frozen=True)
class ScoringNotes(Record):
    """The scoring under way."""

    job: ScoringJob


@dataclass(frozen=True)
class RoundAsked(Record):
    """The accounts that a round of the scoring under way is about; one for each round."""

    ids: bytes = field(repr=False)


@dataclass(frozen=True)
class BatchAnswers(Record):
    """The bits or votes of a batch of the scoring under way; one for each batch."""

    answers: NDArray[np.int16] = field(repr=False)


@dataclass(frozen=True)
class RefreshNotes(Record):
    """The match of a refresh that was begun, or was about to be; None: it is over."""

    match: int | None


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
            records.put(ScoringNotes(job))
        return job

    def keep_answers(self, batch: int, answers: NDArray[np.signedinteger]) -> None:
        """The bits or votes of the n-th batch."""
        with self._records() as records:
            # A vote total is at most the number of trees.
            records.put(BatchAnswers(answers.astype(np.int16)), batch)

    def answers(self, batch: int) -> NDArray[np.int64] | None:
        """The bits or votes of the n-th batch, if it is over."""
        with self._records() as records:
            kept = records.find(BatchAnswers, batch)
            return None if kept is None else kept.answers.astype(np.int64)

    def note_round(self, job: ScoringJob, number: int, keys: Sequence[AccountKey]) -> None:
        """The next batch is round `number` of the questions, about these accounts."""
        with self._records() as records:
            records.put(ScoringNotes(job))
            records.put(RoundAsked(_ids(keys)), number)

    def was_about(self, number: int, keys: Sequence[AccountKey]) -> bool:
        """Whether round `number` was about these accounts, in this order."""
        with self._records() as records:
            return records.get(RoundAsked, number).ids == _ids(keys)

    def end(self) -> None:
        """No scoring is under way any more; what it learnt about accounts is kept.

        Also of one that is given up in the middle of a round: some banks have answered.
        """
        with self._records() as records:
            known = _known_bits(records)
            if known.ids:
                known.store(_of_match(records))
            job = _read(records)
            for batch in () if job is None else job.batches:
                close_epoch(records, batch)
            records.delete(ScoringNotes, RoundAsked, BatchAnswers)

    # Bits that are known in this epoch.

    def known_bits(self, keys: Sequence[AccountKey], n_sets: int) -> NDArray[np.int8]:
        """(accounts, sets): what scorings before this one were told; -1 for nothing."""
        with self._records() as records:
            known = _Known.stored(_of_match(records), n_sets)
        row = {account: number for number, account in enumerate(known.ids)}
        padded = np.concatenate([known.bits, np.full((1, n_sets), UNKNOWN, np.int8)])
        return padded[[row.get(hashed_id(key), -1) for key in keys]]

    @property
    def epoch(self) -> int:
        """The match of all accounts: what is known is known until the next one."""
        with self._records() as records:
            return _of_match(records).epoch

    def all_known(self, n_sets: int) -> tuple[list[bytes], NDArray[np.int8]]:
        """Accounts, as they are hashed, and the bits of each, (accounts, sets)."""
        with self._records() as records:
            known = _Known.stored(_of_match(records), n_sets)
        return known.ids, known.bits

    def learn(self, told: Sequence[tuple[bytes, int, int]], n_sets: int) -> None:
        """What was asked elsewhere in this epoch: account as it is hashed, set, and bit."""
        with self._records() as records:
            known = _Known.stored(_of_match(records), n_sets)
            for number in range(n_sets):
                of_set = [(account, bit) for account, one, bit in told if one == number]
                ids, bits = [one for one, _ in of_set], np.array([bit for _, bit in of_set])
                known = known.and_also(ids, number, bits) if ids else known
            if told:
                known.store(_of_match(records))

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
            noted = records.find(RefreshNotes)
            return None if noted is None else noted.match

    def write_refresh(self, match: int | None) -> None:
        """None: it is over."""
        with self._records() as records:
            records.put(RefreshNotes(match))

    @contextmanager
    def _records(self) -> Iterator[Records]:
        with self._store.transaction() as tx:
            yield Records(tx, self._run_id)


@dataclass(frozen=True)
class _Known:
    """Bits about accounts, (accounts, sets)."""

    ids: list[bytes] = field(repr=False)
    bits: NDArray[np.int8] = field(repr=False)

    @classmethod
    def stored(cls, records: Records, n_sets: int) -> _Known:
        kept = records.find(KnownBits)
        if kept is None or not kept.ids:
            return cls([], np.full((0, n_sets), UNKNOWN, np.int8))
        return cls(kept.ids.split(b"\n"), kept.bits)

    def store(self, records: Records) -> None:
        records.put(KnownBits(b"\n".join(self.ids), self.bits))

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


def _known_bits(records: Records) -> _Known:
    """What was known before, and what the scoring under way was told so far."""
    job = _read(records)
    known = _Known.stored(_of_match(records), 0 if job is None else job.n_sets)
    # In the order of their rounds: there are fewer than ten.
    for (number_of_round,) in records.places(RoundAsked):
        number = int(number_of_round)
        bits, asked = _bits_of_round(records, job, number), records.get(RoundAsked, number).ids
        if bits is not None and asked:
            known = known.and_also(asked.split(b"\n"), number, bits)
    return known


def _bits_of_round(
    records: Records, job: ScoringJob | None, number: int
) -> NDArray[np.integer] | None:
    """As far as they are known; None: the round has not begun."""
    kept = records.find(BatchAnswers, number)
    if kept is not None:
        return kept.answers
    if job is None or number >= len(job.batches):
        return None
    return bits_so_far(records.of_epoch(job.batches[number]))


def _read(records: Records) -> ScoringJob | None:
    noted = records.find(ScoringNotes)
    return None if noted is None else noted.job


def _of_match(training: Records) -> Records:
    """Where what is known is kept: with the match of all accounts, which is forgotten with it."""
    return training.of_epoch(training.get(MatchesInForce).epochs[0])
