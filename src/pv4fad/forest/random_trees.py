"""The paper's random decision trees (protocol.md §11.1).

Breadth first to the given height: below a bank node every node draws one of the PNS features,
elsewhere one of the PNS features and bank conditions, all equally likely.  Feature and level of a
cut come from the generator alone, so the shape of a tree, and with it everything others could
notice, is independent of the data.  A level is drawn between those of the cuts on the same feature
further up, so no leaf is empty by construction.

Levels are in (0, 1).  The payment network's own training data turns a level into a cut: that share
of the way from the feature's least value to its greatest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.config import ForestConfig
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Node, Split

_ATTEMPTS = 1000


@dataclass(frozen=True)
class _LevelTest:
    feature: int
    level: float


@dataclass
class _Draft:
    """A node while its tree is being drawn; a node without a test is a leaf."""

    depth: int
    below_bank: bool
    spans: dict[int, tuple[float, float]]  # feature: levels that can still occur here
    test: _LevelTest | BankCondition | None = None
    children: list[_Draft] = field(default_factory=list)


def random_tree(
    height: int,
    conditions: Sequence[BankCondition],
    max_groups: int,
    cut_points: CutPoints,
    *,
    features: Sequence[int],
    rng: np.random.Generator,
) -> Node:
    """One tree; drawn again, whatever the data, while it has more groups than `max_groups`."""
    for _ in range(_ATTEMPTS):
        root, n_groups = _draw(height, conditions, features, rng)
        if n_groups <= max_groups:
            return _finish(root, cut_points)
    raise ParameterError(
        f"{_ATTEMPTS} random trees of height {height} all had more than "
        f"max_groups_per_tree = {max_groups} groups: raise it, or lower height"
    )


def _draw(
    height: int,
    conditions: Sequence[BankCondition],
    features: Sequence[int],
    rng: np.random.Generator,
) -> tuple[_Draft, int]:
    """A tree in levels, and its number of groups."""
    root = _Draft(depth=0, below_bank=False, spans={})
    n_groups = 0
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        if node.depth == height:
            n_groups += node.below_bank
            continue
        drawn = int(rng.integers(len(features) + (0 if node.below_bank else len(conditions))))
        if drawn < len(features):
            feature = features[drawn]
            low, high = node.spans.get(feature, (0.0, 1.0))
            level = float(rng.uniform(low, high))
            node.test = _LevelTest(feature, level)
            halves = ((low, level), (level, high))
            node.children = [
                _Draft(node.depth + 1, node.below_bank, node.spans | {feature: half})
                for half in halves
            ]
        else:
            node.test = conditions[drawn - len(features)]
            node.children = [_Draft(node.depth + 1, True, node.spans)]
        waiting.extend(node.children)
    return root, n_groups


def _finish(node: _Draft, cut_points: CutPoints) -> Node:
    children = [_finish(child, cut_points) for child in node.children]
    match node.test:
        case _LevelTest(feature, level):
            return Split(feature, cut_points.at(feature, level), *children)
        case BankCondition() as condition:
            return BankNode(condition, *children)
    return Leaf()


class CutPoints:
    """Turns levels into cuts on the features of one training set."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        if features.ndim != 2:
            raise DataError(f"features of shape {features.shape}: need a row for each transaction")
        self._features = features
        self._ranges: dict[int, tuple[float, float]] = {}

    def at(self, feature: int, level: float) -> float:
        """The cut at this level; rises with the level."""
        low, high = self._range(feature)
        return float(np.float32(low + (high - low) * level))

    def _range(self, feature: int) -> tuple[float, float]:
        if feature not in self._ranges:
            column = self._features[:, feature]
            finite = column[np.isfinite(column)]
            # All missing: every transaction goes above, wherever the cut is.
            ends = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
            self._ranges[feature] = ends
        return self._ranges[feature]


def build_forest(
    config: ForestConfig,
    feature_names: Sequence[str],
    features: NDArray[np.float32],
    seed: int,
) -> Forest:
    """A forest of `config.sizes`.  The data only decides the values of cuts."""
    if not feature_names or len(feature_names) != features.shape[1]:
        raise ParameterError(f"{len(feature_names)} names for {features.shape[1]} features")
    shape = config.shape
    tested = _tested_features(shape.features, feature_names)
    cut_points = CutPoints(features)
    # Every tree has its own generator, so that tree t is the same in a larger forest.
    trees = tuple(
        random_tree(
            shape.height,
            shape.conditions,
            config.sizes.groups_per_tree,
            cut_points,
            features=tested,
            rng=rng,
        )
        for rng in np.random.default_rng(seed).spawn(config.n_trees)
    )
    return Forest(trees, tuple(feature_names), config.sizes)


def _tested_features(
    tested: tuple[str, ...] | None, feature_names: Sequence[str]
) -> tuple[int, ...]:
    """The columns that splits may test."""
    names = list(feature_names)
    for name in tested or ():
        if name not in names:
            raise ParameterError(
                f"the forest tests {name!r}, which is no feature; known: {', '.join(names)}"
            )
    return tuple(range(len(names))) if tested is None else tuple(map(names.index, tested))
