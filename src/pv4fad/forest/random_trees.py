"""The paper's random decision trees (protocol.md §11.1).

Breadth first to the given height: below a bank node every node draws one of the PNS features,
elsewhere one of the PNS features and bank conditions, all equally likely.  Feature and level of a
cut come from the generator alone, so the shape of a tree, and with it everything others could
notice, is independent of the data.  A level is drawn between those of the cuts on the same feature
further up, so no leaf is empty by construction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pv4fad.errors import ParameterError
from pv4fad.forest.cuts import CutPoints
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


def expected_red_leaves(height: int, n_features: int, n_conditions: int) -> float:
    """Mean number of red leaves of a tree with one set per bank condition."""
    pns_share = n_features / (n_features + n_conditions)
    return float(2**height * (1 - pns_share**height))


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
