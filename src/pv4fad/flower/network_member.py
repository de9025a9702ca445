"""The payment network as its station runs it: it leads training, scoring and refreshing.

What it is doing is noted in its store before it begins, so that `resume` knows what to carry on:

    train   prepare, propose, carry through          →  runs/<run>/run.json in its folder
    score   new accounts are matched, banks asked    →  predictions/<run>-<n>.csv in its folder
    refresh all accounts are matched again, with the banks' present records and new keys

The steps are those of a federation on one machine (`pv4fad.lead`); only the way of the messages is
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from pv4fad.errors import ParameterError, StoreError
from pv4fad.flower.card import PartyCard, directory
from pv4fad.flower.exchange import Job
from pv4fad.flower.remote_federation import RemoteFederation
from pv4fad.flower.station import Post
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.refresh import drop_work_under_way, refresh
from pv4fad.lead.score import How, score_files
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.train import new_document, resume, resumed_meter, stage_of, train
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.payments.loading import load_transactions
from pv4fad.protocol.roles import BANK, PAYMENT_NETWORK
from pv4fad.protocol.wire import decode
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter, Progress
from pv4fad.run.scoring_record import ScoringRecord, read_record
from pv4fad.store.store import Store
from pv4fad.validated import ValidatedModel
from pv4fad.workers import WorkerPool

RUNS, PREDICTIONS = "runs", "predictions"
BANKS_AT_ONCE = 4  # each has a message of up to 100 MB under way
_NOTES = "deployment"


class Notes(ValidatedModel):
    """What the payment network is doing for the federation."""

    doing: Literal["", "train", "score", "refresh"] = ""
    run_id: str = ""
    """Of the latest training."""
    predictions: int = 0
    """How many files of predictions were begun."""
    done: str = ""
    """The latest order that was carried out."""
    abandoned: tuple[str, ...] = ()
    """Trainings that were given up: what still comes of them is not answered."""


class NetworkMember:
    """The payment network with its transactions."""

    name = PAYMENT_NETWORK

    def __init__(
        self,
        store: Store,
        pool: WorkerPool,
        folder: Path,
        cards: Mapping[str, PartyCard],
        *,
        transactions: Path,
        new_transactions: Path | None,
        training: TrainingSettings | None,
        how: How,
        learned: Callable[[ScoringRecord], None] = lambda _: None,
    ) -> None:
        """`how` to score; `learned` takes what a scoring told, for the eyes of its owner."""
        self._store = store
        self._network = PaymentNetwork(store, pool, banks_at_once=BANKS_AT_ONCE)
        self._folder = folder
        self._cards = cards
        self._transactions = transactions
        self._new_transactions = new_transactions
        self._training = training
        self._how = how
        self._learned = learned
        self._sent_again = False
        """Whether everything that may not have arrived was sent again in this session."""

    def begin_session(self) -> None:
        """Files are read when a job begins."""

    def handle(self, data: bytes) -> list[bytes]:
        if decode(data).address.run_id in self._notes().abandoned:
            return []  # its sender cannot know
        return self._network.handle(data)

    def unanswered(self) -> list[bytes]:
        return self._network.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        if job == "check":
            return  # everybody has been reached
        notes, self._sent_again = self._notes(), again
        if again and order == notes.done:
            return  # somebody was started again after this was done, and before all knew
        if job == "resume":
            if not notes.doing:
                raise StoreError("nothing was interrupted: pv4fad federation start begins")
            job = notes.doing
        elif notes.doing and not (again and notes.doing == job):
            if job != "refresh" or notes.doing == "train":
                raise StoreError(
                    f"the federation was interrupted while it did {notes.doing!r}: carry on with"
                    " pv4fad federation resume"
                )
            drop_work_under_way(self._network, notes.run_id)  # of no use with a new join
        steps = {"train": self._train, "score": self._score, "refresh": self._refresh}
        notes = steps[job](notes, post)
        self._note(notes.model_copy(update={"doing": "", "done": order}))

    # Training.

    def _train(self, notes: Notes, post: Post) -> Notes:
        report = partial(_tell, post)
        if notes.doing == "train" and stage_of(self._store, notes.run_id) is not None:
            folder = self._run_folder(notes.run_id)
            document = folder.read()
            if document is None:
                raise StoreError(f"{folder.path}: run.json of the run to resume is missing")
            trained = stage_of(self._store, notes.run_id) == "Trained"
            if not trained or document.state != "finished":
                federation = self._federation(notes.run_id, post)
                resume(federation, document, resumed_meter(document, report), folder.write)
            return notes
        if self._training is None:
            raise ParameterError("no settings for training: give [training] in party.toml")
        meter = Meter(report)
        transactions = load_transactions(self._transactions, labels_required=True).frame
        new = prepare_run(transactions, directory(self._cards), self._accounts(), self._training)
        document = new_document(new, meter)
        folder = self._run_folder(document.run_id)
        folder.write(document)
        notes = self._note(notes.model_copy(update={"doing": "train", "run_id": document.run_id}))
        train(self._federation(document.run_id, post), new, document, meter, folder.write)
        return notes

    # Scoring.

    def _score(self, notes: Notes, post: Post) -> Notes:
        if self._new_transactions is None:
            raise ParameterError("nothing to score: give new-transactions in party.toml")
        folder = self._model_folder(notes)
        if notes.doing != "score":
            number = notes.predictions + 1
            notes = self._note(notes.model_copy(update={"doing": "score", "predictions": number}))
        out = self._folder / PREDICTIONS / f"{notes.run_id}-{notes.predictions}.csv"
        if out.exists():  # interrupted just after it was written
            JobNotes(self._store, notes.run_id).end()
        else:
            out.parent.mkdir(mode=0o700, exist_ok=True)
            score_files(
                self._federation(notes.run_id, post),
                folder.require_finished().parameters,
                (self._transactions, self._new_transactions),
                directory(self._cards),
                out,
                how=self._how,
                meter=Meter(partial(_tell, post)),
            )
        record = read_record(out)
        if record is not None:
            self._learned(record)
        return notes

    # Refresh.

    def _refresh(self, notes: Notes, post: Post) -> Notes:
        parameters = self._model_folder(notes).require_finished().parameters
        notes = self._note(notes.model_copy(update={"doing": "refresh"}))
        federation, meter = self._federation(notes.run_id, post), Meter(partial(_tell, post))
        refresh(federation, parameters, directory(self._cards), meter)
        return notes

    # What several need.

    def _model_folder(self, notes: Notes) -> RunFolder:
        if not notes.run_id:
            raise StoreError("there is no model yet: pv4fad federation start train")
        folder = self._run_folder(notes.run_id)
        folder.require_finished()
        return folder

    def _federation(self, run_id: str, post: Post) -> RemoteFederation:
        def is_over() -> bool:
            trained = stage_of(self._store, run_id) == "Trained"
            return trained and self._network.epoch_under_way(run_id) is None

        def unanswered() -> list[bytes]:
            return [] if self._sent_again else self._network.unanswered()

        return RemoteFederation(
            self._network, (), self._accounts(), post, self.handle, is_over, unanswered
        )

    def _accounts(self) -> dict[str, int]:
        return {name: card.accounts for name, card in self._cards.items() if card.role == BANK}

    def _run_folder(self, run_id: str) -> RunFolder:
        return RunFolder(self._folder / RUNS / run_id)

    def _notes(self) -> Notes:
        return _read_notes(self._store)

    def _note(self, notes: Notes) -> Notes:
        with self._store.transaction() as tx:
            tx.put(_NOTES, notes.model_dump_json().encode())
        return notes


def abandon(store: Store) -> str:
    """Give up what cannot be carried on; returns the run's id.

    Nothing of it is sent or answered again.  What a bank has spent on it stays spent, and what a
    bank has answered stays known.  The model stays, unless it was to be trained.
    """
    notes = _read_notes(store)
    if not notes.doing:
        raise StoreError("nothing was interrupted")
    left = notes.model_copy(update={"doing": ""})
    if notes.doing == "train":
        left = left.model_copy(update={"run_id": "", "abandoned": (*notes.abandoned, notes.run_id)})
    else:
        drop_work_under_way(PaymentNetwork(store, WorkerPool(0)), notes.run_id)
    with store.transaction() as tx:
        if notes.doing == "train":
            tx.prune(f"{notes.run_id}/")
        tx.put(_NOTES, left.model_dump_json().encode())
    return notes.run_id


def _read_notes(store: Store) -> Notes:
    raw = store.get(_NOTES)
    return Notes() if raw is None else Notes.model_validate_json(raw)


def _tell(post: Post, progress: Progress) -> None:
    cost = progress.cost
    post.tell(f"{cost.phase}: {cost.messages} messages, {cost.bytes} bytes")
