"""status.json in the aggregator's folder: the latest job, and who sent how much to whom.

It holds only what the relay sees anyway: names, sizes, times, kinds of errors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import JOBS, Job, Reply
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.files import write_whole
from pv4fad.randomness import secret_bytes
from pv4fad.validated import ValidatedModel

STATUS_FILE = "status.json"
_WRITE_EVERY_S = 1.0
_ALIVE_WITHIN_S = 30.0
STOPPED = (
    "the relay stopped responding: make sure that pv4fad party run is running at the aggregator,"
    " then continue with pv4fad federation resume"
)


class Hops(ValidatedModel):
    """One station, as the relay sees it."""

    state: str = ""
    problem: str = ""
    failures: int = 0
    """How often it could not be reached."""
    restarts: int = 0
    busy_s: float = 0.0
    """For how long it had work to do."""
    bytes_to: int = 0
    bytes_from: int = 0


class Sent(ValidatedModel):
    """Messages from one party to another."""

    sender: str
    receiver: str
    messages: int = 0
    bytes: int = 0


class Status(ValidatedModel):
    """The content of status.json."""

    format: Literal["pv4fad federation status"] = "pv4fad federation status"
    version: Literal[2] = 2
    number: int
    """The number of the job: every start or resume has its own."""
    job: Job
    order: str = ""
    """The same for the payment network, which carries an order out once."""
    state: Literal["running", "finished", "failed"] = "running"
    error: str = ""
    progress: str = ""
    started: datetime
    finished: datetime | None = None
    sessions: int = 0
    parties: dict[str, Hops] = Field(default_factory=dict)
    sent: tuple[Sent, ...] = ()

    @property
    def seconds(self) -> float:
        return ((self.finished or datetime.now(UTC)) - self.started).total_seconds()


class Journal:
    """Records the relay's work in status.json."""

    def __init__(self, folder: Path, status: Status, parties: Sequence[str]) -> None:
        """`status`: of a new job, or of one that goes on."""
        self._path = folder / STATUS_FILE
        self._status = status
        self._hops = {party: status.parties.get(party, Hops()) for party in parties}
        self._busy_since: dict[str, float] = {}
        self._sent = {(sent.sender, sent.receiver): sent for sent in status.sent}
        self._written = 0.0
        self._writing = threading.Lock()
        self._state_on_disk = ""
        self.problem = ""
        """Why the latest attempt to write has failed; nothing if it has not."""
        self.write()

    @property
    def status(self) -> Status:
        """As it is now."""
        return self._status.model_copy(
            update={"parties": dict(self._hops), "sent": tuple(self._sent.values())}
        )

    def session(self) -> None:
        """A new session begins."""
        self._status = self._status.model_copy(update={"sessions": self._status.sessions + 1})

    def answered(self, party: str, reply: Reply) -> None:
        before, now = self._hops[party], time.monotonic()
        busy_s = before.busy_s + now - self._busy_since.pop(party, now)
        if reply.state == "busy":
            self._busy_since[party] = now
        if (before.state, before.problem) != (reply.state, reply.error) or busy_s != before.busy_s:
            self._note(party, state=reply.state, problem=reply.error, busy_s=busy_s)
        if reply.progress and reply.progress != self._status.progress:
            self._status = self._status.model_copy(update={"progress": reply.progress})

    def lost(self, party: str, reason: str) -> None:
        self._busy_since.pop(party, None)
        self._note(party, problem=reason, failures=self._hops[party].failures + 1)

    def restarted(self, party: str) -> None:
        self._note(party, restarts=self._hops[party].restarts + 1)

    def passed(self, fragment: Fragment) -> None:
        way, size = (fragment.sender, fragment.receiver), len(fragment.body)
        before = self._sent.get(way) or Sent(sender=way[0], receiver=way[1])
        is_last = fragment.part + 1 == fragment.n_parts
        self._sent[way] = before.model_copy(
            update={"messages": before.messages + is_last, "bytes": before.bytes + size}
        )
        for party, direction in zip(way, ("bytes_from", "bytes_to"), strict=True):
            self._note(party, **{direction: getattr(self._hops[party], direction) + size})

    def beat(self) -> None:
        """Show that the relay is alive; called continually."""
        if time.monotonic() - self._written > _WRITE_EVERY_S:
            self.write()

    def finish(self, error: str = "") -> None:
        """The job is over, or has failed with this error."""
        state = "failed" if error else "finished"
        update = {"state": state, "error": error, "finished": datetime.now(UTC)}
        self._status = self._status.model_copy(update=update)
        self.write()

    @property
    def end_is_missing(self) -> bool:
        """Whether the job is over and status.json does not say so: the disk was full."""
        return self._status.state not in ("running", self._state_on_disk)

    def _note(self, party: str, **update: object) -> None:
        self._hops[party] = self._hops[party].model_copy(update=update)

    def write(self) -> None:
        """`StoreError` if the disk does not take it; what is there stays."""
        self._written = time.monotonic()
        with self._writing:
            status = self.status
            try:
                write_whole(self._path, status.model_dump_json(indent=2) + "\n", private=True)
            except OSError as error:
                self.problem = f"{self._path} cannot be written: {error.strerror}"
                raise StoreError(self.problem) from None
            self._state_on_disk, self.problem = status.state, ""


def end_job(folder: Path, error: str) -> None:
    """Of a hub that must not go on with it by itself."""
    found = read_status(folder)
    if found is not None and found.state == "running":
        Journal(folder, found, list(found.parties)).finish(error)


def has_stopped(folder: Path, running: Status) -> bool:
    """Whether the relay of a job that should be running is gone; waits until it is certain."""
    return not _responds(folder) and read_status(folder) == running


def _responds(folder: Path) -> bool:
    """Whether the status is written again within a while."""
    silent, until = _silent_s(folder), time.monotonic() + _ALIVE_WITHIN_S
    while silent < _ALIVE_WITHIN_S and time.monotonic() < until:
        time.sleep(_WRITE_EVERY_S / 2)
        before, silent = silent, _silent_s(folder)
        if silent < before:
            return True
    return False


def _silent_s(folder: Path) -> float:
    return time.time() - (folder / STATUS_FILE).stat().st_mtime


def new_status(before: Status | None, job: str) -> Status:
    """Of a job that begins; `before`: the latest one."""
    for known in JOBS:
        if known == job:
            number = 1 if before is None else before.number + 1
            order = secret_bytes(8).hex()
            return Status(number=number, job=known, order=order, started=datetime.now(UTC))
    raise DataError(f"job {job!r}: give one of {', '.join(JOBS)}")


def read_status(folder: Path) -> Status | None:
    """The state of the latest job; None before the first one."""
    try:
        return Status.model_validate_json((folder / STATUS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, ParameterError, UnicodeDecodeError):
        raise StoreError(f"{folder / STATUS_FILE} is damaged, or of another version") from None
