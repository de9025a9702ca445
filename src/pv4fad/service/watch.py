"""How the service is doing: rates, latency, alerts, how payments were decided, drift.

Everything is counted by minute for the last `MINUTES`, in memory, and in total since the start;
the page shows the former and `/metrics` the latter.  Nothing here names a payment or an account.

Drift is the population stability index of the features and of the local score against training
(`detection.histograms`), over the last day; it needs `LEAST` payments.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from prometheus_client.metrics_core import Metric as Family

from pv4fad.detection.histograms import BINS, FeatureHistograms, binned, stability_index
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.metrics import catalogue
from pv4fad.metrics.figures import Figures
from pv4fad.service.asking.engine import BankStatus
from pv4fad.service.decisions import HOWS, Decision
from pv4fad.tables.features import FeatureTable

MINUTES = 24 * 60
LEAST = 1_000
LATENCY_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper ends of the bins; one more for all above."""


@dataclass
class Minute:
    """What happened in one minute."""

    begins: int
    """In minutes since some moment."""
    decided: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)
    latency: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(len(LATENCY_S) + 1, np.int64)
    )
    refused: int = 0
    scores: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS + 1, np.int64))
    features: NDArray[np.int64] | int = 0

    @property
    def payments(self) -> int:
        return self.decided.total()


@dataclass(frozen=True)
class Expected:
    """What training saw; None where the run kept nothing to compare with."""

    features: FeatureHistograms | None
    score_edges: NDArray[np.float64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, features: FeatureHistograms | None, knowledge: Knowledge) -> Expected:
        """The scores are those of the calibration rows, which stand for payments to come."""
        scores, weight = -np.expm1(-knowledge.hazard), knowledge.weight
        order = np.argsort(scores)
        share = np.cumsum(weight[order]) / weight.sum()
        steps = np.linspace(0, 1, BINS + 1)[1:-1]
        last = len(order) - 1
        edges = scores[order][np.minimum(np.searchsorted(share, steps), last)]
        counts = np.bincount(np.searchsorted(edges, scores, side="right"), weight, BINS + 1)
        return cls(features, edges, counts.astype(np.float64))


@dataclass(frozen=True)
class Drift:
    """Of the last day against training."""

    payments: int
    score: float | None
    """None: too few payments yet."""
    features: dict[str, float] | None
    """The largest first; None: too few payments, or nothing to compare with."""


class Watch:
    """One per service; used on its event loop only."""

    def __init__(
        self, expected: Expected | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._expected, self._clock = expected, clock
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)
        self._total = Minute(0)
        self._seconds = 0.0
        self._under_way: Callable[[], int] = lambda: 0
        self._new_alerts: Callable[[], int] = lambda: 0
        self.banks: Callable[[], Sequence[BankStatus]] = tuple
        """How those are doing that are asked live."""
        self.figures = Figures()
        """Others may add what they know."""
        self.figures.add_source(self._collect)

    def look_at(
        self,
        under_way: Callable[[], int],
        new_alerts: Callable[[], int],
        banks: Callable[[], Sequence[BankStatus]] = tuple,
    ) -> None:
        """Where the numbers are that somebody else keeps."""
        self._under_way, self._new_alerts, self.banks = under_way, new_alerts, banks

    # What happens.

    def decided(self, decisions: Sequence[Decision], local_scores: NDArray[np.float64]) -> None:
        """Some payments, with their scores from own evidence."""
        hows = Counter(one.decided for one in decisions)
        levels = Counter(one.level for one in decisions if one.alert)
        for minute in self._now():
            minute.decided.update(hows)
            minute.levels.update(levels)
        if self._expected is not None:
            bins = np.searchsorted(self._expected.score_edges, local_scores, side="right")
            counts = np.bincount(bins, minlength=BINS + 1)
            for minute in self._now():
                minute.scores += counts

    def answered(self, seconds: Sequence[float]) -> None:
        """Some payments, after this time each."""
        self._seconds += sum(seconds)
        counts = np.bincount(np.searchsorted(LATENCY_S, seconds), minlength=len(LATENCY_S) + 1)
        for minute in self._now():
            minute.latency += counts

    def refused(self, n_payments: int) -> None:
        for minute in self._now():
            minute.refused += n_payments

    def features(self, features: FeatureTable) -> None:
        known = None if self._expected is None else self._expected.features
        if known is not None and known.names == features.names:
            counts = binned(known.edges, features.values)
            for minute in self._now():
                minute.features = minute.features + counts

    # What can be seen.

    def minutes(self, last: int) -> list[Minute]:
        """The last minutes, the present one included; one without payments is there, too."""
        now = int(self._clock() // 60)
        known = {minute.begins: minute for minute in self._minutes}
        return [known.get(begins, Minute(begins)) for begins in range(now - last + 1, now + 1)]

    def over(self, last: int) -> Minute:
        """The last minutes together."""
        first = int(self._clock() // 60) - last + 1
        return _together(first, [one for one in self._minutes if one.begins >= first])

    def drift(self) -> Drift:
        day = self.over(MINUTES)
        n, expected = int(day.scores.sum()), self._expected
        if expected is None or n < LEAST:
            return Drift(n, None, None)
        score = float(stability_index(expected.scores, day.scores))
        features = None
        if expected.features is not None and not isinstance(day.features, int):
            found = stability_index(expected.features.counts, day.features)
            by_name = zip(expected.features.names, found.tolist(), strict=True)
            features = dict(sorted(by_name, key=lambda one: -one[1]))
        return Drift(n, score, features)

    def metrics(self) -> bytes:
        """The text that Prometheus reads."""
        return self.figures.text()

    def _collect(self) -> Iterator[Family]:
        total = self._total
        yield catalogue.PAYMENTS.by({(how,): total.decided[how] for how in HOWS})
        yield catalogue.ALERTS.by({(str(level),): total.levels[level] for level in (1, 2, 3)})
        yield catalogue.REFUSED.of(total.refused)
        counts = np.cumsum(total.latency).tolist()
        yield catalogue.LATENCY.distributed(LATENCY_S, counts, self._seconds)
        yield catalogue.UNDER_WAY.of(self._under_way())
        yield catalogue.ALERTS_NEW.of(self._new_alerts())
        yield from self._of_banks()
        drift = self.drift()
        found = {} if drift.score is None else {"score": drift.score}
        found |= drift.features or {}
        yield catalogue.DRIFT.by({(of,): value for of, value in found.items()})

    def _of_banks(self) -> Iterator[Family]:
        banks = self.banks()
        yield catalogue.BANK_ANSWERING.by(
            {(one.bank,): float(one.state == "answering") for one in banks}
        )
        yield catalogue.LIVE_QUERIES.by({(one.bank,): one.counts.queries for one in banks})
        yield catalogue.LIVE_QUESTIONS.by({(one.bank,): one.counts.questions for one in banks})
        yield catalogue.LIVE_REPLIES.by({(one.bank,): one.counts.replies for one in banks})
        yield catalogue.LIVE_BYTES.by({(one.bank,): one.counts.bytes for one in banks})
        yield catalogue.LIVE_LOST.by({(one.bank,): one.counts.lost for one in banks})
        yield catalogue.LIVE_MISSED.by({(one.bank,): one.counts.missed for one in banks})

    def _now(self) -> tuple[Minute, Minute]:
        """Where to count: in the present minute, and in total."""
        begins = int(self._clock() // 60)
        if not self._minutes or self._minutes[-1].begins != begins:
            self._minutes.append(Minute(begins))
        return self._minutes[-1], self._total


def _together(begins: int, minutes: list[Minute]) -> Minute:
    whole = Minute(begins)
    for minute in minutes:
        whole.decided.update(minute.decided)
        whole.levels.update(minute.levels)
        whole.latency += minute.latency
        whole.refused += minute.refused
        whole.scores += minute.scores
        whole.features = whole.features + minute.features
    return whole
