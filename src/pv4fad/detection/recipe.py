"""What the payment network keeps to make one score of its own model and the votes.

votes        the share of trees that vote for 1: the paper's rule
calibrated   local score and vote totals, weighed by what the payment network knows without
             asking anybody (`calibrated`)
stacked      the same, weighed by what labelled training transactions say that it has scored
             for that purpose (`stacked`)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.calibrated import LadderSide, SideVotes, side_log_odds
from pv4fad.detection.ladder import LabelNoise
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.noisy_or import Floats, combine
from pv4fad.detection.stacked import LocalScale
from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.pairs import AccountIndex
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import Side

VERSION = 2
"""Of everything between data and scores; another one where the same data gives other scores."""

Combiner = Literal["votes", "calibrated", "stacked"]
COMBINERS: tuple[Combiner, ...] = ("calibrated", "stacked", "votes")


def checked_combiner(name: str) -> Combiner:
    """ParameterError if there is none of this name."""
    for combiner in COMBINERS:
        if combiner == name:
            return combiner
    raise ParameterError(f"combiner {name!r}: there are {', '.join(COMBINERS)}")


LOCAL_SCORE = "local_score"
"""The feature that trees with cuts below their bank node test."""


@dataclass(frozen=True)
class Detection:
    """Fitted to the payment network's own training data; no bank's data is in it."""

    local: LocalModel = field(repr=False)
    scale: LocalScale
    sides: tuple[LadderSide, LadderSide]
    anomaly_share: float
    """Of the training transactions; never 0 or 1."""

    @classmethod
    def of(
        cls,
        local: LocalModel,
        scale: LocalScale,
        *,
        forest: Forest,
        accounts: AccountIndex,
        labels: NDArray[np.int8],
        rates: tuple[float, ...],
    ) -> Self:
        """`rates`: of the ladder, by tree."""
        tree_side = forest.group_sides[:: forest.sizes.groups_per_tree]
        sides = []
        for side in Side:
            n_accounts = len(np.unique(accounts.bare_of[accounts.key_of[:, side]]))
            sides.append(
                LadderSide(
                    tuple(rates[tree] for tree in np.flatnonzero(tree_side == side)),
                    n_accounts / forest.sizes.n_trees,
                    len(labels) / max(1, n_accounts),
                )
            )
        share = (int(labels.sum()) + 0.5) / (len(labels) + 1)
        return cls(local, scale, (sides[0], sides[1]), share)

    def calibrated(
        self,
        local_scores: NDArray[np.floating],
        totals: NDArray[np.int64],
        key_of: NDArray[np.int64],
        *,
        is_first: NDArray[np.bool_],
        history: NDArray[np.int64],
        noise: LabelNoise,
    ) -> Floats:
        """P of each transaction.  `totals`, `key_of`: (n, 2), of both sides.

        `history`: (accounts, 2, 2, 2), training payments of each account by side, is_first, label.
        """
        sides = [
            (
                SideVotes(totals[:, side], key_of[:, side], is_first, history[:, side]),
                self.sides[side],
            )
            for side in Side
        ]
        log_odds = side_log_odds(sides, noise, self.anomaly_share)
        return combine(self.scale.log_odds(local_scores), *log_odds)

    def ladder_document(self) -> dict[str, Any]:
        """All but the local model, which has a file format of its own."""
        return {
            "anomaly_share": self.anomaly_share,
            "scale": [self.scale.offset, self.scale.slope],
            "sides": [asdict(one) for one in self.sides],
        }

    @classmethod
    def from_parts(cls, local: bytes, ladder: Any) -> Self:
        """As stored; DataError if it is damaged."""
        match ladder:
            case {
                "anomaly_share": float(share),
                "scale": [float(offset), float(slope)],
                "sides": [{**first}, {**second}],
            }:
                sides = (_side(first), _side(second))
                scale = LocalScale(offset, slope)
                return cls(LocalModel.from_bytes(local), scale, sides, share)
        raise DataError("the stored ladder of the payment network is damaged")


def _side(document: dict[Any, Any]) -> LadderSide:
    match document:
        case {"rates": [*rates], "accounts": float(accounts), "payments": float(payments)}:
            return LadderSide(tuple(float(rate) for rate in rates), accounts, payments)
    raise DataError("the stored ladder of the payment network is damaged")
