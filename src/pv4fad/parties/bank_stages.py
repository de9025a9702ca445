"""How far a run or a match is at a bank."""

from __future__ import annotations

from dataclasses import dataclass

from pv4fad.store.records import Record, Records


@dataclass(frozen=True)
class Following:
    """Keys sent; `done` messages of the bank's chain answered: roster, blocks, products."""

    done: int


@dataclass(frozen=True)
class Matched:
    """A match after training is complete: its tables can be scored."""


@dataclass(frozen=True)
class Released:
    """Noisy sums sent, ε spent."""


@dataclass(frozen=True)
class Trained:
    """The model exists; in sealed mode this bank holds its share of the labels."""


Stage = Following | Matched | Released | Trained


@dataclass(frozen=True)
class BankStage(Record):
    """The stage of a run or a match."""

    now: Stage


def stage_of(records: Records) -> Stage | None:
    """How far it is; None before it has begun."""
    found = records.find(BankStage)
    return None if found is None else found.now
