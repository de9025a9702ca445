"""What the payment network is doing for the federation, noted in its store before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pv4fad.errors import StoreError
from pv4fad.lead.refresh import drop_work_under_way
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Notes(Record):
    """The job under way, and the model."""

    of_all_runs: ClassVar[bool] = True

    doing: Literal["", "train", "score", "match", "refresh"] = ""
    run_id: str = ""
    """The latest training."""
    predictions: int = 0
    """How many files of predictions were started."""
    done: str = ""
    """The latest order that was completed."""
    abandoned: tuple[str, ...] = ()
    """Trainings that were abandoned: later messages of theirs are ignored."""


def read_notes(store: Store) -> Notes:
    """Before the first job: no job under way and no model."""
    with store.transaction() as tx:
        return _of_party(tx).find(Notes) or Notes()


def write_notes(store: Store, notes: Notes) -> None:
    with store.transaction() as tx:
        _of_party(tx).put(notes)


def _of_party(tx: Transaction) -> Records:
    return Records(tx, run_id="")


@dataclass(frozen=True)
class RefreshFirst(Record):
    """Models about which this party has forgotten questions: nothing is asked with their tables
    again, which it does not know to be the present ones either."""

    of_all_runs: ClassVar[bool] = True

    run_ids: tuple[str, ...]


def require_refreshed(store: Store, run_id: str) -> None:
    """`StoreError` if a model's tables are not to be used."""
    with store.transaction() as tx:
        noted = _of_party(tx).find(RefreshFirst)
    if noted is not None and run_id in noted.run_ids:
        raise StoreError(
            "this store was restored and has forgotten questions that it asked: match all accounts"
            " again first (pv4fad federation start AGGREGATOR refresh)"
        )


def note_refreshed(store: Store, run_id: str) -> None:
    """All accounts were matched again."""
    with store.transaction() as tx:
        records = _of_party(tx)
        noted = records.find(RefreshFirst)
        if noted is not None:
            left = tuple(one for one in noted.run_ids if one != run_id)
            records.put(RefreshFirst(left))


@dataclass(frozen=True)
class JobsForgotten(Record):
    """Its store was restored and has lost messages, and since then no job was begun."""

    of_all_runs: ClassVar[bool] = True


def require_begun_here(store: Store, *, again: bool) -> None:
    """`StoreError` if a relay goes on with a job that this party may have forgotten: it would be
    begun once more, and be paid for once more, though nobody has asked for it."""
    with store.transaction() as tx:
        records = _of_party(tx)
        if not records.has(JobsForgotten):
            return
        if again:
            raise StoreError(
                "this job was begun before the store was restored. If it is still wanted, begin it"
                " anew: pv4fad federation start"
            )
        records.delete(JobsForgotten)


def abandon(store: Store) -> str:
    """Abandon the interrupted job; returns the id of its run.

    None of its messages is sent or answered again.  What a bank has spent on it stays spent, and
    what a bank has answered stays known.  The model stays, unless the job was its training.
    """
    notes = read_notes(store)
    if not notes.doing:
        raise StoreError("no job was interrupted")
    left = replace(notes, doing="")
    if notes.doing == "train":
        left = replace(left, run_id="", abandoned=(*notes.abandoned, notes.run_id))
    else:
        drop_work_under_way(PaymentNetwork(store, WorkerPool(0)), notes.run_id)
    with store.transaction() as tx:
        if notes.doing == "train":
            tx.prune(f"{notes.run_id}/")
        _of_party(tx).put(left)
    return notes.run_id
