"""What the payment network's service is made of; whoever starts it puts these together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pv4fad.metrics.figures import Source
from pv4fad.schema import Schema
from pv4fad.service.asking.engine import BankStatus
from pv4fad.service.background import Background
from pv4fad.service.decisions import Engine, Rows
from pv4fad.service.journal import Journal
from pv4fad.service.watch import Watch


class NoticeCarrier(Protocol):
    """Brings a message to a bank, sealed for it."""

    async def carry(self, bank: str, message: bytes) -> bytes:
        """Its reply; raises if the bank cannot be reached."""


@dataclass(frozen=True)
class Parts:
    """Of one service."""

    schema: Schema
    folder: Path
    """Of the payment network; tokens are in it."""
    journal: Journal = field(repr=False)
    rows: Rows = field(repr=False)
    engine: Engine = field(repr=False)
    watch: Watch = field(repr=False)
    directory: Mapping[str, str]
    """What payments call a bank → bank; only banks of the model's run."""
    run_id: str
    """Of the model."""
    banks: Callable[[], Sequence[BankStatus]] = field(default=tuple, repr=False)
    """How those are doing that are asked."""
    sources: Sequence[Source] = field(default=(), repr=False)
    """Of figures about what else runs."""
    carrier: NoticeCarrier | None = field(default=None, repr=False)
    """Brings notices to banks; None: they wait."""
    background: Background = field(default_factory=Background, repr=False)
    """What the service cannot do without."""
    running: Sequence[AbstractAsyncContextManager[object]] = field(default=(), repr=False)
    """What engine and carrier need; entered in this order for as long as the service runs."""
