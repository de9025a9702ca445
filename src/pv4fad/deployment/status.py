"""status.json in the aggregator's folder: the latest job, and who sent how much to whom.

It holds only what the relay sees anyway: names, sizes, times, kinds of errors.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import Job, Reply
from pv4fad.errors import ParameterError, StoreError
from pv4fad.files import write_whole
from pv4fad.validated import ValidatedModel

STATUS_FILE = "status.json"
_WRITE_EVERY_S = 1.0
_ALIVE_WITHIN_S = 30.0


class Hops(ValidatedModel):
    """The exchanges with one station."""

    state: str = ""
    problem: str = ""
    exchanges: int = 0
    failures: int = 0
    restarts: int = 0
    seconds: float = 0.0
    """From request to reply, summed over all exchanges."""
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
    version: Literal[1] = 1
    number: int
    """The number of the job: every start or resume has its own."""
    job: Job
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

    def __init__(self, folder: Path, number: int, job: Job, parties: Sequence[str]) -> None:
        self._path = folder / STATUS_FILE
        self._status = Status(number=number, job=job, started=datetime.now(UTC))
        self._hops = {party: Hops() for party in parties}
        self._asked: dict[str, float] = {}
        self._sent: dict[tuple[str, str], Sent] = {}
        self._written = 0.0
        self._write()

    def session(self, session: str, *, resume: bool) -> None:
        """A new session begins."""
        self._status = self._status.model_copy(update={"sessions": self._status.sessions + 1})

    def asked(self, party: str) -> None:
        self._asked[party] = time.monotonic()
        self._note(party, exchanges=self._hops[party].exchanges + 1)

    def answered(self, party: str, reply: Reply) -> None:
        seconds = time.monotonic() - self._asked.get(party, time.monotonic())
        self._note(
            party,
            state=reply.state,
            problem=reply.error,
            seconds=self._hops[party].seconds + seconds,
        )
        if reply.progress:
            self._status = self._status.model_copy(update={"progress": reply.progress})

    def failed(self, party: str, reason: str) -> None:
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
            self._write()

    def finish(self, error: str = "") -> None:
        """The job is over, or has failed with this error."""
        state = "failed" if error else "finished"
        update = {"state": state, "error": error, "finished": datetime.now(UTC)}
        self._status = self._status.model_copy(update=update)
        self._write()

    def _note(self, party: str, **update: object) -> None:
        self._hops[party] = self._hops[party].model_copy(update=update)

    def _write(self) -> None:
        self._written = time.monotonic()
        status = self._status.model_copy(
            update={"parties": dict(self._hops), "sent": tuple(self._sent.values())}
        )
        write_whole(self._path, status.model_dump_json(indent=2) + "\n", private=True)


def has_stopped_responding(folder: Path) -> bool:
    """Whether the relay of a running job has not written its status for a while."""
    return _silent_s(folder) > _ALIVE_WITHIN_S


def wait_for_response(folder: Path) -> bool:
    """Wait until the relay writes its status; False if it does not."""
    silent, until = _silent_s(folder), time.monotonic() + _ALIVE_WITHIN_S
    while silent < _ALIVE_WITHIN_S and time.monotonic() < until:
        time.sleep(_WRITE_EVERY_S / 2)
        before, silent = silent, _silent_s(folder)
        if silent < before:
            return True
    return False


def _silent_s(folder: Path) -> float:
    return time.time() - (folder / STATUS_FILE).stat().st_mtime


def read_status(folder: Path) -> Status | None:
    """The state of the latest job; None before the first one."""
    try:
        return Status.model_validate_json((folder / STATUS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, ParameterError, UnicodeDecodeError):
        raise StoreError(f"{folder / STATUS_FILE} is damaged, or of another version") from None
