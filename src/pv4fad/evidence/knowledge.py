"""All that the payment network has learnt from its own data when training ends.

No bank had a part in it.  With the noisy counts it becomes an `EvidenceModel`.

The *calibration rows* stand for payments to come: the rows of the last quarter that are in the
honest sample (`detection.local_scale`), seen with the history of the time before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_scale import HonestSample, LocalScale, sample_weights
from pv4fad.errors import DataError
from pv4fad.evidence.cells import (
    CountedAccounts,
    TrainingPayments,
    choose_accounts,
    n_cells,
    rows_per_account,
)
from pv4fad.evidence.own_history import history_log_odds
from pv4fad.evidence.strata import N_STRATA, AccountHistory

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Knowledge:
    """Arrays only, as stored."""

    scale: LocalScale
    history: Floats = field(repr=False)
    """(side, first, stratum, hit): log-odds of the own label history."""
    rows: Floats = field(repr=False)
    """(cells, side, first, stratum, label): payments per account of each cell."""
    kept: NDArray[np.int64] = field(repr=False)
    """(cells,): accounts that count."""
    hazard: Floats = field(repr=False)
    """Of the calibration rows, from own data."""
    is_first: NDArray[np.bool_] = field(repr=False)
    stratum: NDArray[np.int64] = field(repr=False)  # (calibration rows, sides)
    weight: Floats = field(repr=False)
    """How many payments each calibration row stands for."""

    @classmethod
    def of(
        cls, payments: TrainingPayments, sample: HonestSample, seed: int
    ) -> tuple[Self, CountedAccounts]:
        """And the accounts that count; `seed` decides which of their payments do."""
        counted = choose_accounts(payments, np.random.default_rng([seed, 4]))
        account, labels, recent = payments.account, payments.labels, payments.recent
        before = AccountHistory.of(account[~recent], labels[~recent], payments.n_accounts)
        hit, stratum = before.hits(account), before.strata(account, payments.is_first)
        history = history_log_odds(
            hit[recent], payments.is_first[recent], stratum[recent], labels[recent]
        )
        late = recent[sample.rows]
        late = late if late.any() else np.ones_like(late)
        rows = sample.rows[late]
        first, stratum, hit = payments.is_first[rows], stratum[rows], hit[rows]
        local = sample.scale.log_odds(sample.scores[late])
        return cls(
            sample.scale,
            history,
            rows_per_account(payments, counted),
            counted.kept,
            own_hazard(local, history, first, stratum, hit),
            first,
            stratum,
            sample_weights(labels[sample.rows], labels)[late],
        ), counted

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name, for a file without code."""
        arrays = {name: np.asarray(getattr(self, name)) for name in _FORMS}
        return arrays | {"scale": np.array([self.scale.offset, self.scale.slope])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """As stored; DataError if it is damaged."""
        if arrays.keys() != {*_FORMS, "scale"} or not _is(arrays["scale"], "f", (2,)):
            raise _damaged()
        sizes = {"n": len(np.atleast_1d(arrays["weight"]))}
        sizes["sides"] = len(np.atleast_1d(arrays["history"]))
        sizes["cells"] = n_cells(sizes["sides"])
        for name, (kind, shape) in _FORMS.items():
            if not _is(arrays[name], kind, tuple(sizes.get(str(size), size) for size in shape)):
                raise _damaged()
        values = {name: arrays[name] for name in _FORMS}
        sound = (
            np.isfinite(arrays["scale"]).all()
            and not np.isnan(values["history"]).any()
            and all(
                (np.isfinite(values[name]) & (values[name] >= 0)).all()
                for name in ("rows", "kept", "hazard", "weight")
            )
            and ((values["stratum"] >= 0) & (values["stratum"] < N_STRATA)).all()
        )
        if not sound:
            raise _damaged()
        return cls(LocalScale(*map(float, arrays["scale"])), **values)


_FORMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "history": ("f", ("sides", 2, N_STRATA, 2)),
    "rows": ("f", ("cells", "sides", 2, N_STRATA, 2)),
    "kept": ("i", ("cells",)),
    "hazard": ("f", ("n",)),
    "is_first": ("b", ("n",)),
    "stratum": ("i", ("n", "sides")),
    "weight": ("f", ("n",)),
}


def own_hazard(
    local: Floats,
    history: Floats,
    is_first: NDArray[np.bool_],
    stratum: NDArray[np.int64],
    hit: NDArray[np.bool_],
) -> Floats:
    """-log(1 - P) from own data: the local score, and the label history of its accounts."""
    hazard = np.logaddexp(0.0, local)
    for side in range(stratum.shape[1]):
        where = (is_first.astype(np.int64), stratum[:, side], hit[:, side].astype(np.int64))
        hazard += np.logaddexp(0.0, history[side][where])
    return np.asarray(hazard)


def _is(array: NDArray[Any], kind: str, shape: tuple[int, ...]) -> bool:
    return array.dtype.kind == kind and array.shape == shape


def _damaged() -> DataError:
    return DataError("what the lead learnt from its own data is damaged")
