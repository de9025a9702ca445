"""A deployed federation, led by a Python process at the payment network.

For the time of its block the process is the payment network's station: it asks the hub to start
jobs, which it then leads with the rows that it is given.  The steps are those of `pv4fad party run`
and `pv4fad federation start` (`pv4fad.deployment.jobs`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from pv4fad import errors
from pv4fad.api.arguments import Limit, Source
from pv4fad.api.federation import Federation, Ledgers
from pv4fad.api.own_table import keep_table
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.carriers import carrier_of
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.job_notes import abandon, read_notes
from pv4fad.deployment.jobs import RUNS, NetworkMember
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.running import own_identity
from pv4fad.deployment.station import Post, SessionEndedError, Station
from pv4fad.deployment.status import Status
from pv4fad.deployment.work import ToTrain
from pv4fad.errors import ParameterError, ProtocolError, Pv4fadError, StoreError
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.rows import new_rows
from pv4fad.lead.score import How, Scored, score
from pv4fad.lead.settings import TrainingSettings
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.ledger import Expense, Ledger
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.roles import BANK, PAYMENT_NETWORK
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter
from pv4fad.schema import Schema
from pv4fad.store.key_sources import root_key_for
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool, Workers

_CONNECTS_WITHIN_S = 30.0
_HUB_AWAY_S = 120.0
_LOOK_EVERY_S = 0.1


def connect(
    folder: Path | str, *, key_file: Path | str | None = None, workers: Workers = 0
) -> DeployedFederation:
    """The federation of a deployed payment network, led from this process.

    >>> with pv4fad.connect("insurer", key_file="insurer.key") as deployed:
    ...     trained = pv4fad.Detector(epsilon=1, alert_share=0.05).fit(claims, deployed)
    ...     found = trained.detect(new_claims)
    ...     print(deployed.ledgers)
    holder  spent      limit       left  δ of the year
    north       1  not known  not known      not known
    south       1  not known  not known      not known

    `folder`: that of `pv4fad party init`; its party must not be running elsewhere, and the hub and
    the other parties must be (docs/operate/deployment.md).  The aggregator decides whether the
    payment network may start jobs.
    `key_file`: unlocks its store; by default as on the command line.
    `workers`: processes besides this one; with any, a script needs `if __name__ == "__main__":`.
    Or "ray", or the address of a Ray cluster.

    Runs are kept in the folder: `pv4fad.load(federation)` gives the detector of the latest one.
    """
    own = PartyFolder(Path(folder))
    settings = own.settings()
    if settings.role != PAYMENT_NETWORK:
        raise ParameterError(f"{folder} is the folder of {settings.name}: the lead connects")
    if settings.carrier != "hub":
        raise ParameterError(
            f"{folder}: over Flower, jobs are started at the aggregator (pv4fad federation start)"
        )
    cards = own.complete_cards()
    source = settings.key or None if key_file is None else str(key_file)
    root_key = root_key_for(settings.name, source)
    carrier = carrier_of("hub")
    with ExitStack() as stack:
        store = stack.enter_context(own.open_store(root_key))
        pool = stack.enter_context(WorkerPool(workers))
        identity = own_identity(own, store)
        member = _Led(store, pool, own.path, cards, schema=own.schema(), work=_PythonWork())
        notary = Notary(store, identity, known_keys(card.public for card in cards.values()))
        station = Station(member, Correspondence(identity, cards), notary)
        stack.callback(station.close)
        from pv4fad.deployment.hub.carrier import connected  # noqa: PLC0415  imports gRPC

        node = stack.enter_context(connected(own, station))
        if not node.wait_until_connected(_CONNECTS_WITHIN_S):
            raise StoreError(f"{folder} is not connected: {node.problem}")
        holders = tuple(name for name, card in cards.items() if card.role == BANK)
        return DeployedFederation(
            own, holders, store=store, member=member, carrier=carrier, resources=stack.pop_all()
        )


@dataclass
class _PythonWork:
    """What the program has asked for; see `pv4fad.deployment.work.Work`."""

    to_train: ToTrain | None = None
    to_score: tuple[Schema, pl.DataFrame, pl.DataFrame, How] | None = None
    scored: Scored | None = None

    def training(self) -> ToTrain:
        if self.to_train is None:
            raise StoreError("a Python process leads: only it can say what to train on")
        return self.to_train

    def score(
        self,
        federation: LedFederation,
        parameters: RunParameters,
        directory: Mapping[str, str],
        number: int,
        meter: Meter,
    ) -> None:
        if self.to_score is None:
            raise StoreError("a Python process leads: only it can say what to score")
        schema, history, rows, how = self.to_score
        new = new_rows(schema, rows, history)
        self.scored = score(federation, parameters, new, directory, how=how, meter=meter)


class _Led(NetworkMember):
    """The payment network, which tells the program how a job ended."""

    outcome: Future[None] | None = None

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        try:
            super().do(job, post, again=again, order=order)
        except SessionEndedError:
            raise  # it goes on in the next session
        except BaseException as error:
            if self.outcome is not None and not self.outcome.done():
                self.outcome.set_exception(error)
            raise
        if self.outcome is not None and not self.outcome.done():
            self.outcome.set_result(None)


class DeployedFederation(Federation):
    """The other parties are on machines of their own."""

    def __init__(
        self,
        folder: PartyFolder,
        holders: tuple[str, ...],
        *,
        store: Store,
        member: _Led,
        carrier: Carrier,
        resources: ExitStack,
    ) -> None:
        super().__init__(folder.schema(), resources)
        self._folder, self._holders = folder, holders
        self._store, self._member, self._carrier = store, member, carrier
        self._closed = False

    @property
    def holders(self) -> tuple[str, ...]:
        return self._holders

    @property
    def ledgers(self) -> Ledgers:
        """What the payment network knows: its own trainings, also those that did not finish.

        What else a holder has spent, and its limit, only that holder knows.
        """
        runs = sorted((self._folder.path / RUNS).glob("*"))
        documents = [run for path in runs if (run := RunFolder(path).read()) is not None]
        known = _KnownLedger(tuple(map(_expense, documents)))
        return Ledgers(dict.fromkeys(self._holders, known), limits_known=False)

    def set_limit(self, holder: str, epsilon: Limit) -> None:
        raise ParameterError(
            f"limit of {holder}: only that party can set it (pv4fad ledger set-limit)"
        )

    def refresh(self, holders: Mapping[str, Source] | None = None) -> Self:
        if holders:
            raise ParameterError("holders: each reads its own table when a job begins")
        self._run("refresh")
        return self

    def resume(self) -> Self:
        """Carry on with the training or refresh that was interrupted, and wait for its end."""
        status = self._settled()
        if read_notes(self.lead_store).doing:
            self._run("resume")
        elif status is not None and status.state == "failed":
            raise _error_of(status.error)
        return self

    def abandon(self) -> None:
        """Give up the interrupted job; what holders have spent on it stays spent."""
        abandon(self.lead_store)

    def close(self) -> None:
        self._closed = True
        super().close()

    # For detectors.

    @property
    def lead_store(self) -> Store:
        if self._closed:
            raise StoreError("the federation is closed: use it inside its with block")
        return self._store

    def train(self, rows: pl.DataFrame, settings: TrainingSettings) -> RunDocument:
        self._settled()
        if read_notes(self.lead_store).doing == "train":
            raise StoreError(
                "a training was interrupted: carry on with federation.resume(), or give it up with"
                " federation.abandon()"
            )
        self._run("train", _PythonWork(to_train=ToTrain(rows, settings)))
        run = self.latest_run()
        keep_table(self.lead_store, run.run_id, rows)
        return run

    def score(
        self, run: RunDocument, history: pl.DataFrame, rows: pl.DataFrame, how: How
    ) -> Scored:
        if run.run_id != self.latest_run().run_id:
            raise ParameterError(
                "this detector was trained before the latest one: a deployed federation scores"
                " with its latest training"
            )
        work = _PythonWork(to_score=(self.schema, history, rows, how))
        self._run("score", work)
        if work.scored is None:
            raise ProtocolError("the scoring ended without a result")
        return work.scored

    def latest_run(self) -> RunDocument:
        """The latest training; `StoreError` if there is none."""
        run_id = read_notes(self.lead_store).run_id
        if not run_id:
            raise StoreError("there is no model yet: fit a Detector")
        return RunFolder(self._folder.path / RUNS / run_id).require_finished()

    def _run(self, job: Job, work: _PythonWork | None = None) -> None:
        """Have the hub start a job, and wait for its end."""
        self._settled()
        self._member.work = work or _PythonWork()
        outcome = self._member.outcome = Future()
        number = self._carrier.start_job(self._folder, job)
        try:
            status = self._ended(number)
        finally:
            self._member.outcome = None
        if status.state == "failed":
            if outcome.done():
                outcome.result()
            raise _error_of(status.error)

    def _settled(self) -> Status | None:
        """The latest job; one that is under way, because it was interrupted, goes on to its end."""
        _ = self.lead_store  # raises if it is closed
        status = self._carrier.status(self._folder)
        running = status is not None and status.state == "running"
        return self._ended(status.number) if status is not None and running else status

    def _ended(self, number: int) -> Status:
        """Wait for the end of a job."""
        seen = time.monotonic()
        while True:
            try:
                status = self._carrier.status(self._folder)
                seen = time.monotonic()
            except StoreError:
                if time.monotonic() - seen > _HUB_AWAY_S:
                    raise
                status = None  # the hub goes on with the job when it is back
            if status is not None and status.number >= number and status.state != "running":
                return status
            time.sleep(_LOOK_EVERY_S)


class _KnownLedger(Ledger):
    """What another party knows of a holder's ledger."""

    @property
    def left(self) -> Any:
        raise StoreError("what is left of its limit, only the holder itself knows")


def _expense(run: RunDocument) -> Expense:
    privacy = run.privacy
    return Expense(
        run.run_id,
        parse_epsilon(privacy.epsilon),
        privacy.sensitivity,
        privacy.unit,
        privacy.noise,
        "",
        run.begun,
        privacy.honest_banks,
    )


def _error_of(text: str) -> Pv4fadError:
    """The error that stopped a job, of the kind that its party has named."""
    named = re.search(r"cannot continue \((\w+)\)", text)
    kind = getattr(errors, named[1], None) if named else None
    if isinstance(kind, type) and issubclass(kind, Pv4fadError):
        return kind(text)
    return ProtocolError(text)
