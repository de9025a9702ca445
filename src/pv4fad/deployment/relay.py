"""The relay: passes sealed fragments between stations, and cannot open them.

One request at a time is under way to each station; its reply brings what the party sends.  If a
station does not answer, the same request is repeated until `patience_s` is over.  A station that
was restarted has lost what was on its way: then a new session begins, in which every party sends
again what may not have arrived.

The job is over when the payment network says so and no message is on its way any more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pv4fad.deployment.carrier import Carrier, Failure
from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import (
    JOBS,
    Job,
    Reply,
    Request,
    State,
    fitting,
)
from pv4fad.deployment.status import Journal
from pv4fad.errors import DataError, ProtocolError, Pv4fadError
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.randomness import secret_bytes

LINGER_S = 1.5
PATIENCE_S = 3600.0
_RETRY_S = 2.0


def relay_job(
    folder: Path,
    parties: Sequence[str],
    job: str,
    number: int,
    carrier: Carrier,
    *,
    linger_s: float = LINGER_S,
    patience_s: float = PATIENCE_S,
) -> None:
    """Carry one job through; its progress and its end are in status.json in this folder."""
    if job not in JOBS:
        raise DataError(f"job {job!r}: give one of {', '.join(JOBS)}")
    journal = Journal(folder, number, job, parties)
    try:
        Relay(carrier, parties, job, journal, linger_s=linger_s, patience_s=patience_s).run()
    except Pv4fadError as error:
        journal.finish(str(error))
        raise
    except BaseException as error:
        journal.finish(f"the relay stopped: {type(error).__name__}")
        raise
    journal.finish()


@dataclass
class _Line:
    """The relay's end of its exchange with one station, in one session."""

    queue: deque[Fragment] = field(default_factory=deque)
    first: int = 1
    received: int = 0
    contacted: bool = False
    under_way: bool = False
    station: str = ""
    state: State = "idle"
    waiting: int = 0
    arrived_at: float = 0.0
    """When the oldest fragment in the queue came."""
    failing_since: float | None = None
    ask_again_at: float = 0.0

    @property
    def is_quiet(self) -> bool:
        return not (self.queue or self.under_way or self.waiting or self.state == "busy")


class Relay:
    """The state of one job."""

    def __init__(
        self,
        carrier: Carrier,
        parties: Sequence[str],
        job: Job,
        journal: Journal,
        *,
        linger_s: float,
        patience_s: float,
    ) -> None:
        self._carrier = carrier
        self._parties = tuple(parties)
        self._job = job
        self._journal = journal
        self._linger_s, self._patience_s = linger_s, patience_s
        self._lines: dict[str, _Line] = {}
        self._session = ""
        self._order = secret_bytes(8).hex()
        self._resume = job == "resume"

    def run(self) -> None:
        """Until the job is done; raises `ProtocolError` if it cannot be."""
        self._begin_session(resume=self._job == "resume")
        while not self._is_over():
            self._journal.beat()
            for party, line in self._lines.items():
                if self._should_ask(party, line):
                    self._ask(party, line)
                    self._journal.beat()
            for party, answer in self._carrier.receive():
                line = self._lines[party]
                line.under_way = False
                if isinstance(answer, Failure):
                    self._note_failure(party, line, answer)
                else:
                    self._take(party, line, answer)
                    if self._lines[party] is not line:
                        break  # a new session has begun

    def _begin_session(self, *, resume: bool) -> None:
        under_way = {party for party, line in self._lines.items() if line.under_way}
        self._session = secret_bytes(8).hex()
        self._resume = resume
        self._lines = {party: _Line(under_way=party in under_way) for party in self._parties}
        self._journal.session(self._session, resume=resume)

    def _is_over(self) -> bool:
        if not all(line.is_quiet for line in self._lines.values()):
            return False
        network = self._lines[PAYMENT_NETWORK]
        if not all(line.contacted for line in self._lines.values() if self._asks_all_parties):
            return False
        if not network.contacted:
            return False
        if network.state != "done":
            raise ProtocolError("all parties wait, but the job is not done")
        return True

    @property
    def _asks_all_parties(self) -> bool:
        """Otherwise a party is asked only when there is a message for it."""
        return self._resume or self._job == "check"

    # To a station.

    def _should_ask(self, party: str, line: _Line) -> bool:
        now = time.monotonic()
        if line.under_way or now < line.ask_again_at:
            return False
        if not line.contacted and (self._asks_all_parties or party == PAYMENT_NETWORK):
            return True
        if line.state == "busy" or line.waiting:
            return True
        # Messages that others are about to send may travel in the same request.
        lingering = now < line.arrived_at + self._linger_s and any(
            other.under_way for other in self._lines.values()
        )
        return bool(line.queue) and not lingering

    def _ask(self, party: str, line: _Line) -> None:
        job: Job = self._job if party == PAYMENT_NETWORK else ""
        request = Request(
            self._session,
            self._resume,
            job,
            line.received,
            line.first,
            fitting(line.queue),
            self._order,
        )
        line.under_way = True
        self._journal.asked(party)
        self._carrier.send(party, request)

    # From a station.

    def _note_failure(self, party: str, line: _Line, failure: Failure) -> None:
        now = time.monotonic()
        if line.failing_since is None:
            line.failing_since = now
        if now - line.failing_since > self._patience_s:
            raise ProtocolError(
                f"{party} has not answered for {self._patience_s:.0f} s ({failure.reason}): when it"
                " runs again, continue with pv4fad federation resume"
            )
        line.ask_again_at = now + _RETRY_S
        self._journal.failed(party, failure.reason)

    def _take(self, party: str, line: _Line, reply: Reply) -> None:
        if reply.party != party:
            raise ProtocolError(f"the station of {reply.party} answers for {party}")
        if reply.session != self._session:
            return  # to a request of the session before
        if line.station and line.station != reply.station:
            self._journal.restarted(party)
            self._begin_session(resume=True)
            return
        line.contacted, line.station, line.failing_since = True, reply.station, None
        line.state, line.waiting = reply.state, reply.waiting
        self._journal.answered(party, reply)
        if reply.state == "failed":
            raise ProtocolError(f"{party}: {reply.error}")
        while line.queue and line.first <= reply.acknowledged:
            line.queue.popleft()
            line.first += 1
        for number, fragment in enumerate(reply.fragments, start=reply.first):
            if number == line.received + 1:
                line.received = number
                self._pass_on(party, fragment)

    def _pass_on(self, party: str, fragment: Fragment) -> None:
        if fragment.sender != party:
            raise ProtocolError(f"{party} sent a message in the name of {fragment.sender}")
        if fragment.receiver not in self._lines:
            raise ProtocolError(f"{party} wrote to {fragment.receiver}, who takes no part")
        receiver = self._lines[fragment.receiver]
        if not receiver.queue:
            receiver.arrived_at = time.monotonic()
        receiver.queue.append(fragment)
        self._journal.passed(fragment)
