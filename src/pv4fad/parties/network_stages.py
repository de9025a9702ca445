"""How far a run, a match or a batch is at the payment network."""

from __future__ import annotations

from dataclasses import dataclass

from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store


@dataclass(frozen=True)
class Proposed:
    """1 for each bank, and the aggregator, that has answered its proposal; 0: not yet."""

    answered: dict[str, int]


@dataclass(frozen=True)
class Running:
    """For each bank whose chain has begun, how many of its steps have been answered."""

    answered: dict[str, int]


@dataclass(frozen=True)
class Settling:
    """A match after training is in force; waiting for the banks that are not in `answered`."""

    answered: tuple[str, ...]


@dataclass(frozen=True)
class Matched:
    """A match after training is complete."""


@dataclass(frozen=True)
class Comparing:
    """`done` blocks of labels received."""

    done: int


@dataclass(frozen=True)
class Revealing:
    """Released mode: own share of the labels received, waiting for the other."""


@dataclass(frozen=True)
class Trained:
    """The model exists."""


@dataclass(frozen=True)
class Scoring:
    """A batch under way: steps answered by each bank that has begun, sums of A still to come."""

    answered: dict[str, int]
    sums_left: int


@dataclass(frozen=True)
class Scored:
    """All answers of a batch are in."""


Stage = Proposed | Running | Settling | Matched | Comparing | Revealing | Trained | Scoring | Scored


@dataclass(frozen=True)
class NetworkStage(Record):
    """The stage of a run, a match or a batch."""

    now: Stage


def stage_of(records: Records) -> Stage | None:
    """How far it is; None before it has begun."""
    found = records.find(NetworkStage)
    return None if found is None else found.now


def is_proposed(store: Store, run_id: str) -> bool:
    """Whether the payment network has proposed a run, from its store."""
    with store.transaction() as tx:
        return stage_of(Records(tx, run_id)) is not None


def is_trained(store: Store, run_id: str) -> bool:
    """Whether the model of a run exists, from the payment network's store."""
    with store.transaction() as tx:
        return isinstance(stage_of(Records(tx, run_id)), Trained)
