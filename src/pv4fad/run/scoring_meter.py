"""Seconds, messages and bytes of what follows training: matches and scored batches.

match   accounts that are new, or all of them anew
score   the batches, and what a sealed model needs before the first one
"""

from __future__ import annotations

import time

from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Header
from pv4fad.run.meter import (
    PREPARE,
    PhaseCost,
    Progress,
    Report,
    Traffic,
    TrafficCount,
    answered_kind,
)

MATCH, SCORE = "match", "score"
SCORING_PHASES = (PREPARE, MATCH, SCORE)
MATCHING_PHASES = (PREPARE, MATCH)
_KINDS_OF_MATCH = {
    "run-proposal",
    "bank-keys",
    "encrypted-table",
    "blinded-indicators",
    "tables-in-force",
}


class ScoringMeter:
    """An observer of a transport."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._costs = {phase: PhaseCost(phase=phase) for phase in (MATCH, SCORE)}
        self._totals = dict.fromkeys(self._costs, 0)
        self._traffic = TrafficCount()
        self._running: str | None = None
        self._since = time.monotonic()

    def expect(self, phase: str, messages: int) -> None:
        """So many messages of this phase are still to come, as far as is known."""
        self._totals[phase] = self._costs[phase].messages + messages
        self._switch_to(phase)

    def __call__(self, message: Header, size_bytes: int) -> None:
        """A message is about to be handed over."""
        phase = MATCH if answered_kind(message) in _KINDS_OF_MATCH else SCORE
        self._switch_to(phase)
        self._traffic.add(message, size_bytes)
        self._add(phase, messages=1, size_bytes=size_bytes)

    def stop(self) -> None:
        """The last message of the running phase has been handled."""
        self._switch_to(None)

    @property
    def phases(self) -> tuple[PhaseCost, ...]:
        """Those that there were."""
        return tuple(cost for cost in self._costs.values() if cost.messages)

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        return self._traffic.counted()

    def _switch_to(self, phase: str | None) -> None:
        now, before = time.monotonic(), self._running
        seconds, self._running, self._since = now - self._since, phase, now
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
        total = max(self._totals[phase], cost.messages)
        self._report(Progress(cost, total, self._running == phase))


def messages_of_match(parameters: RunParameters) -> int:
    """How many messages a match after training has."""
    n_tables = sum(len(parameters.match_steps(bank)) for bank in parameters.banks)
    return 2 * n_tables + 4 * len(parameters.banks)  # proposals, keys; what is in force, receipts
