"""The relay of one job: passes sealed fragments between stations, and cannot open them.

It shows every party the signed session keys of the others.  It keeps a fragment until its receiver
has acknowledged it, and tells the sender so: what a sender has under way to one receiver is
bounded, and a slow receiver holds up nobody else.  Who was away gets what it has missed.  A station
that was restarted has lost what was on its way: then a new session begins, in which every party
sends again what may not have arrived.

The job is over when the payment network says so and no message is on its way any more.

The relay does nothing on its own: a carrier tells it what stations say (`take`, `lost`), and asks
it what to tell them (`next`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import WINDOW_BYTES, Job, Outbox, Reply, Request, State
from pv4fad.deployment.status import Journal
from pv4fad.errors import ProtocolError
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.randomness import secret_bytes

PATIENCE_S = 3600.0
_UNHEARD = "a station that was told of the job and has not answered: it may have begun"


@dataclass
class _Line:
    """The relay's end of its exchange with one station, in one session."""

    outbox: Outbox
    acknowledged: dict[str, int] = field(default_factory=dict)
    """How many of the station's fragments each receiver has."""
    told: Request | None = None
    """What the station was told last, without fragments."""
    contacted: bool = False
    station: str = ""
    state: State = "idle"
    waiting: int = 0
    offer: str = ""
    """The party's session key, signed."""

    @property
    def is_quiet(self) -> bool:
        idle = self.contacted and self.state in ("idle", "done")
        return idle and not self.waiting and self.outbox.is_empty


class Relay:
    """The state of one job; `resume` if it may have begun before."""

    def __init__(
        self,
        parties: Sequence[str],
        job: Job,
        order: str,
        journal: Journal,
        *,
        resume: bool = False,
        window_bytes: int = WINDOW_BYTES,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._parties = tuple(parties)
        self._job = job
        self._order = order
        self._journal = journal
        self._window_bytes = window_bytes
        self._patience_s = patience_s
        self._lines: dict[str, _Line] = {}
        self._away: dict[str, tuple[float, str]] = {}
        self._begin_session(resume=resume or job == "resume")

    def _begin_session(self, *, resume: bool) -> None:
        self._session = secret_bytes(8).hex()
        self._resume = resume
        self._lines = {party: _Line(Outbox(self._window_bytes)) for party in self._parties}
        self._journal.session()

    # To a station.

    def next(self, party: str, most_bytes: int = 1, *, always: bool = False) -> Request | None:
        """What to tell a station now; None if there is nothing new, unless `always`."""
        line = self._lines[party]
        fragments = line.outbox.next(most_bytes)
        job: Job = self._job if party == PAYMENT_NETWORK else ""
        rewind = line.told is None
        said = Request(
            *(self._session, self._resume, job, self._order, False, dict(line.acknowledged)),
            {name: other.offer for name, other in self._lines.items() if other.offer},
        )
        told = line.told or replace(said, offers={})
        # Who does not work has no message to seal, and gets new keys with the next one to open.
        known = told if line.state == "busy" else replace(told, offers=said.offers)
        if not (fragments or always or rewind) and said == known:
            return None
        line.told = said
        new = {name: key for name, key in said.offers.items() if told.offers.get(name) != key}
        return replace(said, rewind=rewind, offers=new, fragments=fragments)

    def waiting_bytes(self, party: str) -> int:
        """Of fragments for a station that it has not acknowledged."""
        return sum(self._lines[party].outbox.n_bytes(sender) for sender in self._parties)

    def wants_to_hear(self, party: str) -> bool:
        """Whether a station that speaks only when asked may have something to say."""
        line = self._lines[party]
        return not line.contacted or line.state == "busy" or bool(line.waiting)

    def lost(self, party: str, reason: str) -> None:
        """A station cannot be reached: what it was told last may not have arrived."""
        self._away.setdefault(party, (time.monotonic(), reason))
        self._journal.lost(party, reason)
        line = self._lines[party]
        if line.told is not None and not line.station:
            line.station = _UNHEARD
        line.outbox.rewind()
        line.told = None

    def require_patience(self) -> None:
        """`ProtocolError` if a party has been away for too long."""
        for party, (since, reason) in self._away.items():
            if time.monotonic() - since > self._patience_s:
                raise ProtocolError(
                    f"{party} has not answered for {self._patience_s:.0f} s ({reason}): when it"
                    " runs again, continue with pv4fad federation resume"
                )

    # From a station.

    def take(self, party: str, reply: Reply) -> set[str]:
        """What a station says; returns the parties for which there may be something new.

        Raises `ProtocolError` if the job cannot go on.
        """
        if reply.party != party:
            raise ProtocolError(f"the station of {reply.party} answers for {party}")
        self._away.pop(party, None)
        line = self._lines[party]
        if line.station and line.station != reply.station:
            self._journal.restarted(party)
            self._begin_session(resume=True)
            return set(self._parties)
        line.station = reply.station
        if reply.session != self._session:
            return {party}  # it has not heard of this session yet
        line.contacted, line.state, line.waiting = True, reply.state, reply.waiting
        self._journal.answered(party, reply)
        if reply.state == "failed":
            raise ProtocolError(f"{party}: {reply.error}")
        woken = {party}
        if reply.offer != line.offer:
            line.offer = reply.offer
            woken |= set(self._parties)
        for sender, count in reply.acknowledged.items():
            if line.outbox.acknowledge(sender, count):
                self._lines[sender].acknowledged[party] = count
                woken.add(sender)
        for fragment in reply.fragments:
            self._pass_on(party, fragment)
            woken.add(fragment.receiver)
        return woken

    def _pass_on(self, party: str, fragment: Fragment) -> None:
        if fragment.sender != party:
            raise ProtocolError(f"{party} sent a message in the name of {fragment.sender}")
        if fragment.receiver not in self._lines:
            raise ProtocolError(f"{party} wrote to {fragment.receiver}, who takes no part")
        outbox = self._lines[fragment.receiver].outbox
        if outbox.put(party, fragment):
            self._journal.passed(fragment)
        if outbox.n_bytes(party) > 2 * self._window_bytes:
            raise ProtocolError(
                f"{party} sends more to {fragment.receiver} at a time than was agreed"
            )

    @property
    def is_over(self) -> bool:
        """Raises `ProtocolError` if nobody works and the job is not done."""
        if not all(line.is_quiet for line in self._lines.values()):
            return False
        if self._lines[PAYMENT_NETWORK].state != "done":
            raise ProtocolError("all parties wait, but the job is not done")
        return True
