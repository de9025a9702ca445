"""The model of a run: own knowledge and noisy counts, as evidence and a threshold.

The *hazard* of a payment is h = -log(1 - P).  Reasons for suspicion add up in it:

    h = log(1 + e^local) + Σ_sides log(1 + e^history) + Σ_sides log(1 + e^L)

The first two are the payment network's own, h0; L is what the class of the account is worth
(`log_odds`), and nothing for an ordinary account.

An account is asked about by kind, one round of questions per kind, the most telling one first.
The kinds are disjoint: of m questions about an account one can have the answer yes, and all of
them together tell log2(m + 1) bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError
from pv4fad.evidence.cells import n_cells
from pv4fad.evidence.classes import CountedSets, counted_sets, judged_kinds, kind_counts
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.log_odds import KindEvidence
from pv4fad.evidence.noise import CountNoise
from pv4fad.schema import Absent

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceModel:
    """Kinds are in the order in which they are asked about: the most telling one first."""

    knowledge: Knowledge = field(repr=False)
    kinds: tuple[tuple[int, ...], ...]
    """The kinds of record in each; round i of a scoring asks about the i-th."""
    log_odds: Floats = field(repr=False)
    """(side, first, stratum, kind); -∞: no evidence."""
    share: Floats = field(repr=False)
    """(side, first, stratum, kind): expected, of payments."""
    order: tuple[int, ...]
    """Which of `classes.judged_kinds` each is."""

    @classmethod
    def of(
        cls,
        knowledge: Knowledge,
        noisy_counts: NDArray[np.int64],
        noise: CountNoise,
        *,
        sets: CountedSets,
        absent: Absent,
        n_kinds: int,
        order: Sequence[int] | None = None,
    ) -> Self:
        """`noisy_counts`: (cells, sets), as released in training.  `order`: of the kinds, if it
        was settled before; by default the most telling one comes first."""
        n_sides = knowledge.stratum.shape[1]
        shape = (n_cells(n_sides), len(counted_sets(sets, absent, n_kinds)))
        if noisy_counts.shape != shape:
            raise DataError(f"noisy counts of shape {noisy_counts.shape}: expected {shape}")
        counts = kind_counts(noisy_counts, knowledge.kept, sets, absent)
        found = KindEvidence.of(counts, knowledge.kept, knowledge.rows, noise)
        names = judged_kinds(sets, absent, n_kinds)
        chosen = most_telling_first(found, knowledge) if order is None else tuple(order)
        if sorted(chosen) != list(range(len(names))):
            raise DataError("the stored order of the kinds is damaged")
        return cls(
            knowledge,
            tuple(names[kind] for kind in chosen),
            found.log_odds[..., list(chosen)],
            found.share[..., list(chosen)],
            chosen,
        )

    @cached_property
    def hazard(self) -> Floats:
        """(side, first, stratum, kind): what the kind adds to a payment's hazard."""
        return np.logaddexp(0.0, self.log_odds)

    def threshold(self, alert_share: float) -> float:
        """τ: local alerts and expected alerts through banks are this share of the payments.

        By the calibration rows.  A larger share never has a higher threshold.
        """
        if not 0 < alert_share <= 1:
            raise ParameterError(f"alert share {alert_share}: give a share above 0, at most 1")
        if alert_share not in self._thresholds:
            self._thresholds[alert_share] = self._threshold(alert_share)
        return self._thresholds[alert_share]

    @cached_property
    def _thresholds(self) -> dict[float, float]:
        """Computed once per share: payments are judged a few at a time."""
        return {}

    def _threshold(self, alert_share: float) -> float:
        own = self.knowledge
        value, weight = [own.hazard], [own.weight]
        for side in range(own.stratum.shape[1]):
            where = (side, own.is_first.astype(np.int64), own.stratum[:, side])
            adds, share = self.hazard[where], self.share[where]
            expected = np.where(adds > 0, share, 0.0) * own.weight[:, np.newaxis]
            # Below its own hazard a row alerts anyway: there it must not count twice.
            weight[0] = weight[0] - expected.sum(axis=1)
            value.append((own.hazard[:, np.newaxis] + adds).ravel())
            weight.append(expected.ravel())
        falling, step = np.unique(-np.concatenate(value), return_inverse=True)
        steps = -falling
        alerts = np.maximum.accumulate(np.cumsum(np.bincount(step, np.concatenate(weight))))
        budget = alert_share * own.weight.sum()
        if not len(steps) or alerts[0] >= budget:
            return float(np.nextafter(steps.max(initial=0.0), np.inf))
        return float(np.interp(budget, alerts, steps))


def most_telling_first(found: KindEvidence, knowledge: Knowledge) -> tuple[int, ...]:
    """The kinds by what they add to the hazard of a payment of theirs, on average."""
    payments = np.tensordot(knowledge.kept, knowledge.rows, 1).sum(axis=-1)
    of_kind = found.share * payments[..., np.newaxis]
    hazard = (of_kind * np.logaddexp(0.0, found.log_odds)).sum(axis=(0, 1, 2))
    mean = hazard / np.maximum(of_kind.sum(axis=(0, 1, 2)), 1e-9)
    return tuple(int(kind) for kind in np.argsort(-mean, kind="stable"))
