"""Seconds and bytes of a run: by phase, and by kind and direction of message.

    prepare   at the payment network and the banks, before anything is sent
    propose, match, count; of the paper's model compare, labels   as in `federation`

A message belongs to the phase of its kind.  Handling time belongs to the phase of the work that the
message sets off: the last shares of the join let the payment network begin to count.  Messages
sent again after a resume are counted again, because they travel again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pv4fad.parties.party import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.messages import BlindedIndicators, MaskedProducts, Receipt, Roster
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Header, kind_in_id
from pv4fad.validated import ValidatedModel

PREPARE = "prepare"
PHASES = (PREPARE, "propose", "match", "count")

_PHASE_OF_KIND = {
    "run-proposal": "propose",
    "bank-keys": "propose",
    "roster": "propose",
    "encrypted-table": "match",
    "blinded-indicators": "match",
    "masked-products": "count",
    "noisy-sums": "count",
    "noisy-counts": "count",
    "blinded-sums": "compare",
    "encrypted-digits": "compare",
    "shared-labels": "labels",
    "label-masks": "labels",
}


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
    """A phase as far as it is; `total` messages follow from the public parameters."""

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


class TrafficCount:
    """Messages and bytes by kind and direction."""

    def __init__(self, traffic: Iterable[Traffic] = ()) -> None:
        """`traffic`: what was counted before."""
        self._messages: Counter[tuple[str, str, str]] = Counter()
        self._bytes: Counter[tuple[str, str, str]] = Counter()
        for one in traffic:
            self._messages[one.kind, one.sender, one.receiver] = one.messages
            self._bytes[one.kind, one.sender, one.receiver] = one.bytes

    def add(self, message: Header, size_bytes: int) -> None:
        address = message.address
        direction = (message.kind, role(address.sender), role(address.receiver))
        self._messages[direction] += 1
        self._bytes[direction] += size_bytes

    def counted(self) -> tuple[Traffic, ...]:
        return tuple(
            Traffic(kind=kind, sender=sender, receiver=receiver, messages=n, bytes=size)
            for (kind, sender, receiver), n in self._messages.items()
            for size in (self._bytes[kind, sender, receiver],)
        )


class Meter:
    """An observer of a transport."""

    def __init__(
        self,
        parameters: RunParameters,
        report: Report,
        *,
        phases: Iterable[PhaseCost] = (),
        traffic: Iterable[Traffic] = (),
    ) -> None:
        """`phases` and `traffic`: what an interrupted run has cost already."""
        self._parameters = parameters
        self._report = report
        self._totals = messages_of_phases(parameters)
        self._costs = {phase: PhaseCost(phase=phase) for phase in self._totals}
        self._costs |= {cost.phase: cost for cost in phases}
        self._traffic = TrafficCount(traffic)
        self._working_on: str | None = "propose"
        self._since = time.monotonic()

    def __call__(self, message: Header, size_bytes: int) -> None:
        """A message is about to be handed over."""
        self._traffic.add(message, size_bytes)
        self._add(_phase_of(message), messages=1, size_bytes=size_bytes)
        self._switch_to(self._phase_of_work(message))

    def stop(self) -> None:
        """The last message has been handled."""
        self._switch_to(None)

    @property
    def phases(self) -> tuple[PhaseCost, ...]:
        return tuple(self._costs.values())

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        return self._traffic.counted()

    def _switch_to(self, phase: str | None) -> None:
        now, before = time.monotonic(), self._working_on
        seconds, self._working_on, self._since = now - self._since, phase, now
        if before is not None:
            self._add(before, seconds=seconds)

    def _add(
        self, phase: str, *, seconds: float = 0.0, messages: int = 0, size_bytes: int = 0
    ) -> None:
        before = self._costs[phase]
        cost = PhaseCost(
            phase=phase,
            seconds=before.seconds + seconds,
            messages=before.messages + messages,
            bytes=before.bytes + size_bytes,
        )
        self._costs[phase] = cost
        self._report(Progress(cost, self._totals[phase], self._working_on == phase))

    def _phase_of_work(self, message: Header) -> str:
        """Of what the receiver will do next."""
        bank, here = message.address.sender, (message.address.table_id, message.address.index)
        if message.kind == BlindedIndicators.kind:
            plan, chunk = self._parameters.match_steps(bank)[-1]
            return "count" if here == (plan.table_id, chunk) else "match"
        if message.kind == Receipt.kind and answered_kind(message) == Roster.kind:
            return "match"
        if message.kind == Receipt.kind and answered_kind(message) == MaskedProducts.kind:
            # After its last products, it is the next bank's turn.
            plan, chunk = self._parameters.count_steps(bank)[-1]
            return "match" if here == (plan.table_id, chunk) else "count"
        return _phase_of(message)


def messages_of_phases(parameters: RunParameters) -> dict[str, int]:
    """How many messages each phase has."""
    n_banks = len(parameters.banks)
    n_match = sum(len(parameters.match_steps(bank)) for bank in parameters.banks)
    n_count = sum(len(parameters.count_steps(bank)) for bank in parameters.banks)
    messages = {
        PREPARE: 0,
        "propose": 2 + 4 * n_banks,  # proposals, keys or receipt; rosters, receipts
        "match": 2 * n_match,
        "count": 2 * n_count + n_banks,
    }
    if parameters.mode == "counts":
        return messages | {"count": messages["count"] + 1}
    n_blocks, n_masks = parameters.n_leaf_blocks, n_banks if parameters.mode == "sealed" else 1
    return messages | {"compare": 1 + n_blocks, "labels": n_blocks + n_masks}


def role(party: str) -> str:
    """What a party is: every bank is a bank."""
    return party if party in (PAYMENT_NETWORK, AGGREGATOR) else "bank"


def answered_kind(message: Header) -> str:
    """The kind of a message; of a receipt, the kind of the message that it acknowledges."""
    return kind_in_id(str(message.scalars["of"])) if message.kind == Receipt.kind else message.kind


def _phase_of(message: Header) -> str:
    return _PHASE_OF_KIND[answered_kind(message)]
