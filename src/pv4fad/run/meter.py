"""Seconds, messages and bytes of a run: by phase, and by kind and direction of message.

    prepare   before anything is sent
    propose, match, count; of the paper's model compare, labels   training, as in `protocol.order`
    match     after training: accounts that are new, or all of them again
    score     questions and answers, and what a sealed model needs before the first batch

A message belongs to the phase of its kind.  Handling time belongs to the phase of the work that the
message sets off: the last shares of the join let the payment network begin to count.  Where parties
work at the same time, seconds belong to the message that was handed over last.  Messages sent again
after a resume are counted again, because they travel again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.match.messages import BlindedIndicators
from pv4fad.protocol.order import answered_kind, messages_of, phase_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import Roster
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import role_of
from pv4fad.protocol.wire import Header
from pv4fad.validated import ValidatedModel

PREPARE, PROPOSE, MATCH, COUNT, SCORE = "prepare", "propose", "match", "count", "score"
TRAINING_PHASES = (PREPARE, PROPOSE, MATCH, COUNT)
SCORING_PHASES = (PREPARE, MATCH, SCORE)
REFRESH_PHASES = (PREPARE, MATCH)


class PhaseCost(ValidatedModel):
    """What a phase has cost so far."""

    phase: str
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0


class Traffic(ValidatedModel):
    """All messages of one kind in one direction; `sender` and `receiver` are roles."""

    kind: str
    sender: str
    receiver: str
    messages: int
    bytes: int


@dataclass(frozen=True)
class Progress:
    """How far a phase is; the `total` number of messages follows from public parameters."""

    cost: PhaseCost
    total: int
    under_way: bool

    @property
    def done(self) -> int:
        return min(self.cost.messages, self.total)

    @property
    def is_over(self) -> bool:
        """No message and no work is left of this phase."""
        return self.done == self.total and not self.under_way


Report = Callable[[Progress], object]


class Meter:
    """Measures training, scoring or a refresh; an observer of a transport.

    It begins with the phase `prepare`, which ends when messages are expected or sent.
    """

    def __init__(
        self,
        report: Report = lambda _: None,
        *,
        phases: Iterable[PhaseCost] = (),
        traffic: Iterable[Traffic] = (),
    ) -> None:
        """`phases` and `traffic`: what an interrupted run has cost already."""
        self._report = report
        self._costs = {cost.phase: cost for cost in phases}
        self._traffic = {(flow.kind, flow.sender, flow.receiver): flow for flow in traffic}
        self._totals: Counter[str] = Counter()
        self._training: RunParameters | None = None
        self._working_on: str | None = PREPARE
        self._since = time.monotonic()

    def expect_training(self, parameters: RunParameters) -> None:
        """All messages of a training follow, with those that an interrupted run has sent."""
        self._training = parameters
        self._totals.update(messages_of(parameters))
        self.switch_to(PROPOSE)

    def expect(self, phase: str, messages: int) -> None:
        """This many messages of a phase are still to come, as far as is known."""
        self._totals[phase] = self._cost(phase).messages + messages
        self.switch_to(phase)

    def __call__(self, message: Header, size_bytes: int) -> None:
        """A message is about to be handed over."""
        sender, receiver = role_of(message.address.sender), role_of(message.address.receiver)
        before = self._traffic.get((message.kind, sender, receiver))
        self._traffic[message.kind, sender, receiver] = Traffic(
            kind=message.kind,
            sender=sender,
            receiver=receiver,
            messages=1 + (before.messages if before else 0),
            bytes=size_bytes + (before.bytes if before else 0),
        )
        self._add(phase_of(message), messages=1, size_bytes=size_bytes)
        self.switch_to(self._phase_of_work(message))

    def stop(self) -> None:
        """The last message has been handled."""
        self.switch_to(None)

    def switch_to(self, phase: str | None) -> None:
        """The time from now on belongs to this phase."""
        now, before = time.monotonic(), self._working_on
        seconds, self._working_on, self._since = now - self._since, phase, now
        if before is not None:
            self._add(before, seconds=seconds)

    @property
    def phases(self) -> tuple[PhaseCost, ...]:
        """Those that have begun."""
        return tuple(self._costs.values())

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        return tuple(self._traffic.values())

    def _cost(self, phase: str) -> PhaseCost:
        return self._costs.get(phase, PhaseCost(phase=phase))

    def _add(
        self, phase: str, *, seconds: float = 0.0, messages: int = 0, size_bytes: int = 0
    ) -> None:
        before = self._cost(phase)
        cost = PhaseCost(
            phase=phase,
            seconds=before.seconds + seconds,
            messages=before.messages + messages,
            bytes=before.bytes + size_bytes,
        )
        self._costs[phase] = cost
        total = max(self._totals[phase], cost.messages)
        self._report(Progress(cost, total, self._working_on == phase))

    def _phase_of_work(self, message: Header) -> str:
        """Of what the receiver will do next."""
        bank, here = message.address.sender, (message.address.table_id, message.address.index)
        if self._training is None:
            return phase_of(message)
        if message.kind == BlindedIndicators.kind:
            plan, chunk = self._training.match_steps(bank)[-1]
            return COUNT if here == (plan.table_id, chunk) else MATCH
        if message.kind == Receipt.kind and answered_kind(message) == Roster.kind:
            return MATCH
        if message.kind == Receipt.kind and answered_kind(message) == MaskedProducts.kind:
            # After its last products, it is the next bank's turn.
            plan, chunk = self._training.count_steps(bank)[-1]
            return MATCH if here == (plan.table_id, chunk) else COUNT
        return phase_of(message)
