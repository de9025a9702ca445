"""The payment network as its station runs it: it leads the jobs of a federation.

    train     prepare, propose, carry through         →  runs/<run>/run.json in its folder
    score     match new accounts, ask the banks       →  predictions/<run>-<n>.csv (`work`)
    match     match the accounts that live payments have met
    refresh   match all accounts again, with the banks' current records and new keys

Each job is noted in the store before it begins (`job_notes`), so that `resume` can continue it.
The steps are those of a federation on one machine (`pv4fad.lead`); messages to the other parties
go through the relay (`RemoteFederation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from pv4fad.deployment.card import PartyCard, directory
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.job_notes import (
    Notes,
    note_refreshed,
    read_notes,
    require_begun_here,
    require_refreshed,
    write_notes,
)
from pv4fad.deployment.station import Post
from pv4fad.deployment.work import Work
from pv4fad.errors import StoreError
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.new_accounts import match_new_accounts
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.refresh import drop_work_under_way, refresh
from pv4fad.lead.rows import LeadData
from pv4fad.lead.train import new_document, resume, resumed_meter, train
from pv4fad.parties.in_process import Observer
from pv4fad.parties.network_stages import is_proposed, is_trained
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.roles import BANK, PAYMENT_NETWORK
from pv4fad.protocol.wire import read_header
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter, Progress
from pv4fad.schema import Schema
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

RUNS = "runs"
_Matched = Callable[[LedFederation, RunParameters, Mapping[str, str], Meter], None]
BANKS_AT_ONCE = 4  # each message under way has up to 100 MB


@dataclass(frozen=True)
class RemoteFederation(LedFederation):
    """A federation whose other parties are behind the relay."""

    accounts: Mapping[str, int]
    post: Post
    handle: Callable[[bytes], list[bytes]] = field(repr=False)
    is_over: Callable[[], bool] = field(repr=False)
    """Whether the training, match or batch is complete."""
    unanswered: Callable[[], list[bytes]] = field(repr=False)
    """Messages that may not have arrived and were not sent again when the session began."""

    @property
    def bank_accounts(self) -> Mapping[str, int]:
        return self.accounts

    def deliver(self, messages: Iterable[bytes], observer: Observer | None = None) -> None:
        self._send(messages, observer)
        while not self.is_over():
            data = self.post.receive()
            if observer is not None:
                observer(read_header(data), len(data))
            self._send(self.handle(data), observer)

    def resume(self, observer: Observer | None = None) -> None:
        self.deliver(self.unanswered(), observer)

    def _send(self, messages: Iterable[bytes], observer: Observer | None) -> None:
        for data in messages:
            if observer is not None:
                observer(read_header(data), len(data))
            self.post.send([data])


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
        schema: Schema,
        work: Work,
    ) -> None:
        """`folder`: for the documents of runs."""
        self._store = store
        self._network = PaymentNetwork(store, pool, banks_at_once=BANKS_AT_ONCE)
        self._folder = folder
        self._cards = cards
        self._schema = schema
        self.work = work
        self._sent_again = False
        """Whether all messages that may not have arrived were sent again in this session."""

    def begin_session(self) -> None:
        """Files are read when a job begins."""

    def handle(self, data: bytes) -> list[bytes]:
        if read_header(data).address.run_id in read_notes(self._store).abandoned:
            return []  # its sender does not know that the training was abandoned
        return self._network.handle(data)

    def unanswered(self) -> list[bytes]:
        return self._network.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        if job == "check":
            return  # every party has been reached
        require_begun_here(self._store, again=again)
        notes, self._sent_again = read_notes(self._store), again
        if again and order == notes.done:
            return  # a station was restarted after the job, and before the relay knew its end
        if job == "resume":
            if not notes.doing:
                raise StoreError("no job was interrupted: begin one with pv4fad federation start")
            job = notes.doing
        elif notes.doing and not (notes.doing == job and (again or job in ("score", "match"))):
            if job != "refresh" or notes.doing == "train":
                raise StoreError(
                    f"the job {notes.doing!r} was interrupted: continue it with pv4fad federation"
                    " resume"
                )
            drop_work_under_way(self._network, notes.run_id)  # useless after a new match
        steps: dict[str, Callable[[Notes, Post], Notes]] = {
            "train": self._train,
            "score": self._score,
            "match": partial(self._match, "match", match_new_accounts),
            "refresh": partial(self._match, "refresh", refresh),
        }
        notes = steps[job](notes, post)
        self._note(replace(notes, doing="", done=order))

    def _train(self, notes: Notes, post: Post) -> Notes:
        report = partial(_report, post)
        if notes.doing == "train" and is_proposed(self._store, notes.run_id):
            folder = self._run_folder(notes.run_id)
            document = folder.read()
            if document is None:
                raise StoreError(f"{folder.path}: run.json of the run to resume is missing")
            trained = is_trained(self._store, notes.run_id)
            if not trained or document.state != "finished":
                federation = self._federation(notes.run_id, post)
                resume(federation, document, resumed_meter(document, report), folder.write)
            return notes
        meter = Meter(report)
        work = self.work.training()
        data = LeadData(self._schema, work.rows, directory(self._cards))
        new = prepare_run(data, self._accounts(), work.settings, work.desk_labels)
        document = new_document(new, meter)
        folder = self._run_folder(document.run_id)
        folder.write(document)
        notes = self._note(replace(notes, doing="train", run_id=document.run_id))
        train(self._federation(document.run_id, post), new, document, meter, folder.write)
        return notes

    def _score(self, notes: Notes, post: Post) -> Notes:
        require_refreshed(self._store, notes.run_id)
        parameters = self._model_folder(notes).require_finished().parameters
        if notes.doing != "score":
            number = notes.predictions + 1
            notes = self._note(replace(notes, doing="score", predictions=number))
        federation, meter = self._federation(notes.run_id, post), Meter(partial(_report, post))
        self.work.score(federation, parameters, directory(self._cards), notes.predictions, meter)
        return notes

    def _match(
        self, job: Literal["match", "refresh"], matched: _Matched, notes: Notes, post: Post
    ) -> Notes:
        parameters = self._model_folder(notes).require_finished().parameters
        if job != "refresh":
            require_refreshed(self._store, notes.run_id)
        notes = self._note(replace(notes, doing=job))
        federation, meter = self._federation(notes.run_id, post), Meter(partial(_report, post))
        matched(federation, parameters, directory(self._cards), meter)
        if job == "refresh":
            note_refreshed(self._store, notes.run_id)
        return notes

    def _model_folder(self, notes: Notes) -> RunFolder:
        if not notes.run_id:
            raise StoreError("there is no model yet: pv4fad federation start FOLDER train")
        folder = self._run_folder(notes.run_id)
        folder.require_finished()
        return folder

    def _federation(self, run_id: str, post: Post) -> RemoteFederation:
        def is_over() -> bool:
            trained = is_trained(self._store, run_id)
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

    def _note(self, notes: Notes) -> Notes:
        write_notes(self._store, notes)
        return notes


def _report(post: Post, progress: Progress) -> None:
    cost = progress.cost
    post.report(f"{cost.phase}: {cost.messages} messages, {cost.bytes / 10**6:,.1f} MB")
