"""What a bank keeps of the phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pv4fad.store.records import Record


@dataclass(frozen=True)
class ReceivedNotice(Record):
    """A notice; one for each run and number."""

    of_all_runs: ClassVar[bool] = True

    reference: str = field(repr=False)
    account: str = field(repr=False)
    level: int
    received: str
    """UTC."""
