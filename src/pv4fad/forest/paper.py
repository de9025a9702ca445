"""The paper's model as `--model paper` has it by default: twelve random trees of height 6.

One row in a thousand is anomalous.  Three things let random trees find it all the same, none of
them from a holder's data:

    under-sampling   tree t keeps label-0 pairs at its own rate, from 30 times the share of
                     anomalies down to that share; without it every leaf is labelled 0
    features         splits may test a few features only, which say something by themselves; drawn
                     among many, most splits would tell nothing
    conditions       listed more than once: about half of all tests ask a holder.  One side may be
                     listed more often than the others.  A path asks about one side only, so with
                     even odds about half of the trees ask about a given account, and its record
                     alone could hardly ever turn a majority

An account teaches one tree, so many or high trees have leaves that no account taught.
docs/understand/forest.md says what this reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

from pv4fad.forest.config import ForestConfig, RandomShape, ordinary_on
from pv4fad.forest.pairs import CountConfig, undersampling_rates

TREES = 12
HEIGHT = 6
BOUND = 1


def paper_forest(
    n_trees: int = TREES,
    height: int = HEIGHT,
    *,
    n_atoms: int,
    listed: Sequence[int] = (5, 5),
    features: tuple[str, ...] | None = None,
) -> ForestConfig:
    """The trees.  `listed`: how often the condition of each side is; `features`: to be tested."""
    conditions = tuple(ordinary_on(side) for side, times in enumerate(listed) for _ in range(times))
    shape = RandomShape(height=height, conditions=conditions, features=features)
    return ForestConfig(n_trees=n_trees, shape=shape, n_atoms=n_atoms, n_sides=len(listed))


def paper_counts(anomaly_share: float, n_trees: int = TREES, bound: int = BOUND) -> CountConfig:
    """How pairs count.  Weights stay 1: a heavier label 1 would need as much more noise.

    `anomaly_share`: of the lead's own training rows.
    """
    highest, lowest = (min(1.0, max(times * anomaly_share, 1e-6)) for times in (30, 1))
    rates = undersampling_rates(n_trees, highest, lowest)
    return CountConfig(bound=bound, label0_rates=rates)
