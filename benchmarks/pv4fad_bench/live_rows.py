"""The rows that `pv4fad bench live` prints: what was sent, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.payments.schema import SCHEMA
from pv4fad.run.predictions import HOLDERS_ANSWER
from pv4fad_bench.live_load import Answered

_FEWEST = 100
COLUMNS = (
    *("banks", "tick", "known", "per s", "payments", "refused", "new: p50/p95/p99 ms"),
    *("known: p50/p95/p99 ms", "asked", "no answer", "wrong", "missed ticks"),
    *("CPU service", "workers", "hub", "banks", "client", "kB each"),
)


@dataclass(frozen=True)
class Load:
    """What is sent."""

    banks: int
    tick_ms: int
    known: float
    """The share of payments that ask nothing."""
    rate: float
    seconds: float

    @property
    def n(self) -> int:
        return max(_FEWEST, round(self.rate * self.seconds))


@dataclass(frozen=True)
class Part:
    """One repetition."""

    found: Answered
    is_new: NDArray[np.bool_]
    wrong: int
    missed: float
    cpu_s: dict[str, float]
    passed_s: float
    n_bytes: float


@dataclass(frozen=True)
class Row:
    """What came of it; times in milliseconds, CPU in cores."""

    load: Load
    payments: int
    refused: int
    new_ms: tuple[int, int, int] | None
    known_ms: tuple[int, int, int] | None
    asked: int
    """Payments that are new and were decided with the banks' answers."""
    no_answer: int
    wrong: int
    missed_ticks: int
    cpu: dict[str, float]
    kb_each: float

    def cells(self) -> tuple[str, ...]:
        load = self.load
        times = (
            "-" if ms is None else "/".join(map(str, ms)) for ms in (self.new_ms, self.known_ms)
        )
        counts = (self.asked, self.no_answer, self.wrong, self.missed_ticks)
        return (
            *(f"{load.banks}", f"{load.tick_ms}", f"{load.known:.0%}", f"{load.rate:g}"),
            *(f"{self.payments:,}", f"{self.refused:,}", *times),
            *(f"{one:,}" for one in counts),
            *(f"{one:.2f}" for one in self.cpu.values()),
            f"{self.kb_each:.1f}",
        )


def row_of(load: Load, parts: Sequence[Part]) -> Row:
    answers = [one for part in parts for one in part.found.answers]
    seconds = np.concatenate([part.found.seconds for part in parts])
    is_new = np.concatenate([part.is_new for part in parts])
    decided = np.array([one.get("decided", "") for one in answers])
    hows = Counter(decided.tolist())
    passed = sum(part.passed_s for part in parts)
    return Row(
        load,
        payments=len(answers),
        refused=hows[""],
        new_ms=_quantiles(seconds[is_new & (decided != "")]),
        known_ms=_quantiles(seconds[~is_new & (decided != "")]),
        asked=int((is_new & (decided == "banks asked")).sum()),
        no_answer=hows["bank not answering"],
        wrong=sum(part.wrong for part in parts),
        missed_ticks=round(sum(part.missed for part in parts)),
        cpu={
            name: round(sum(part.cpu_s[name] for part in parts) / passed, 3)
            for name in parts[0].cpu_s
        },
        kb_each=round(sum(part.n_bytes for part in parts) / len(answers) / 1000, 2),
    )


def n_wrong(found: Answered, positive: NDArray[np.bool_]) -> int:
    """How many were decided with an answer that is not that of the banks' records."""
    answer = SCHEMA.words(HOLDERS_ANSWER)
    asked = np.array([one.get("decided") == "banks asked" for one in found.answers])
    says = np.array([answer in one.get("reasons", ()) for one in found.answers])
    return int((asked & (says != positive)).sum())


def _quantiles(seconds: NDArray[np.float64]) -> tuple[int, int, int] | None:
    if not len(seconds):
        return None
    p50, p95, p99 = (round(1000 * float(np.quantile(seconds, q))) for q in (0.5, 0.95, 0.99))
    return p50, p95, p99
