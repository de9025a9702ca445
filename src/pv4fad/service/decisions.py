"""What the service asks of an engine, and what it gets: decisions about payments.

An engine judges a batch and yields its decisions in parts: those that depend on no bank at once,
the others when the banks have answered or their time is over.  It knows nothing of HTTP, the
journal or the desk.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.lead.rows import NewRows

How = Literal[
    "banks asked", "local only", "account not yet matched", "bank not known", "bank not answering"
]
HOWS: tuple[How, ...] = get_args(How)
"""How a payment was decided.

    banks asked               with the answers of the banks, new ones or those of this epoch
    local only                nothing that a bank could have said would have changed the decision

A bank could have changed it, but an account is taken as ordinary, because

    account not yet matched   nobody can be asked about it before the next match
    bank not known            it is not known which bank keeps it: only batches ask all of them
    bank not answering        its bank did not answer in time
"""


@dataclass(frozen=True)
class Decided:
    """Decisions about some payments of a batch."""

    rows: NDArray[np.int64] = field(repr=False)
    """Which payments of the batch."""
    table: pl.DataFrame = field(repr=False)
    """As predictions: Score, Alert, Level, LocalScore, Reasons (`run.predictions`)."""
    how: tuple[How, ...] = field(repr=False)


class Engine(Protocol):
    """Judges payments."""

    def decide(self, payments: NewRows) -> AsyncIterator[Decided]:
        """Every payment of the batch once, in parts."""


class Rows(Protocol):
    """What the payment network knows about payments before they are judged."""

    def take(self, payments: pl.DataFrame, texts: Sequence[str]) -> NewRows:
        """Of new payments, in the order in which they came; from now on they are history.

        `texts`: of each (`intake`).
        """

    def decided(self, ids: Sequence[str]) -> None:
        """The decisions about these payments are in the journal."""

    def undecided(self, ids: Sequence[str]) -> None:
        """There will be none about these: they are no history."""


@dataclass(frozen=True)
class Decision:
    """One decision, as clients get it and as it is kept."""

    id: str
    alert: bool
    level: int
    score: float
    reasons: tuple[str, ...]
    decided: How
    time: str
    """When it was decided; UTC."""

    def to_json(self) -> bytes:
        """Always the same bytes; these are what is kept, and what a repeated payment gets."""
        return json.dumps(vars(self), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        content: dict[str, Any] = json.loads(text)
        return cls(**content | {"reasons": tuple(content["reasons"])})


def decisions_of(part: Decided, ids: list[str], now: datetime) -> list[Decision]:
    """One for each payment of a part; `ids`: of the whole batch."""
    columns = (part.table[name].to_list() for name in ("Score", "Alert", "Level", "Reasons"))
    time = now.isoformat(timespec="milliseconds")
    return [
        Decision(
            ids[number],
            bool(alert),
            level,
            score,
            tuple(reasons.split("; ")) if reasons else (),
            how,
            time,
        )
        for number, score, alert, level, reasons, how in zip(
            part.rows.tolist(), *columns, part.how, strict=True
        )
    ]
