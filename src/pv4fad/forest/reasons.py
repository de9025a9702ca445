"""Where a transaction landed in the trees, in the words of the payment network's own tests.

    log_amount >= 9.2 (7 trees); 1 <= settlement_delay_days < 4 (5 trees)

All tests on the way to the leaves that a transaction reached, put together feature by feature: the
features that most trees tested first.  Nothing here says how a leaf votes: the labels of red leaves
depend on the banks' data, and of a sealed model the payment network does not know them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import BankNode, Node, Split

_CHUNK = 1 << 15  # transactions at a time
_INFINITE = np.float32(np.inf)


@dataclass(frozen=True)
class LeafPaths:
    """The payment network's tests above each leaf; arrays (leaves, features).

    Group g is leaf g, green leaf i is leaf -1 - i, counted from the end: as in leaf codes.
    """

    tested: NDArray[np.bool_]
    lower: NDArray[np.float32]  # x >= lower
    upper: NDArray[np.float32]  # x < upper

    @classmethod
    def of(cls, forest: Forest) -> LeafPaths:
        shape = (forest.sizes.n_groups + forest.n_green, len(forest.feature_names))
        paths = cls(
            np.zeros(shape, np.bool_),
            np.full(shape, -_INFINITE, np.float32),
            np.full(shape, _INFINITE, np.float32),
        )
        next_green = -1
        for number, tree in enumerate(forest.trees):
            next_group = number * forest.sizes.groups_per_tree
            waiting: list[tuple[Node, bool, tuple[tuple[int, float, bool], ...]]] = [
                (tree, False, ())
            ]
            while waiting:
                node, below_bank, tests = waiting.pop()
                match node:
                    case BankNode(_, subtree):
                        waiting.append((subtree, True, tests))
                    case Split(feature, cut, below, above):
                        # Last in, first out: leaves are met from left to right.
                        waiting.append((above, below_bank, (*tests, (feature, cut, False))))
                        waiting.append((below, below_bank, (*tests, (feature, cut, True))))
                    case _:
                        paths._enter(next_group if below_bank else next_green, tests)
                        next_group += below_bank
                        next_green -= not below_bank
        return paths

    def _enter(self, leaf: int, tests: tuple[tuple[int, float, bool], ...]) -> None:
        for feature, cut, is_below in tests:
            self.tested[leaf, feature] = True
            if is_below:
                self.upper[leaf, feature] = min(self.upper[leaf, feature], cut)
            else:
                self.lower[leaf, feature] = max(self.lower[leaf, feature], cut)


def reasons(forest: Forest, codes: NDArray[np.int32], most: int = 3) -> pl.Series:
    """For each row of leaf codes the `most` tested features, and what the tests say of them."""
    paths = LeafPaths.of(forest)
    most = min(most, len(forest.feature_names))
    parts = [
        _of_chunk(forest, paths, codes[start : start + _CHUNK], most)
        for start in range(0, len(codes), _CHUNK)
    ]
    return pl.concat(parts) if parts else pl.Series("Reasons", [], pl.String)


def _of_chunk(forest: Forest, paths: LeafPaths, codes: NDArray[np.int32], most: int) -> pl.Series:
    shape = (len(codes), len(forest.feature_names))
    n_trees = np.zeros(shape, np.int32)
    lower, upper = np.full(shape, -_INFINITE), np.full(shape, _INFINITE)
    for column in codes.T:
        n_trees += paths.tested[column]
        np.maximum(lower, paths.lower[column], out=lower)
        np.minimum(upper, paths.upper[column], out=upper)
    ranked = np.argsort(-n_trees, axis=1, kind="stable")[:, :most]
    rows = np.arange(len(codes))
    facts = pl.DataFrame(
        {
            str(rank): _texts(
                forest,
                np.stack(
                    [feature, n_trees[rows, feature], lower[rows, feature], upper[rows, feature]],
                    axis=1,
                ).astype(np.float64),
            )
            for rank, feature in enumerate(ranked.T)
        }
    )
    return facts.select(
        pl.concat_str(pl.all(), separator="; ", ignore_nulls=True).alias("Reasons")
    ).to_series()


def _texts(forest: Forest, facts: NDArray[np.float64]) -> list[str | None]:
    """One text for each row of feature, trees, lower, upper; None where no tree tested it."""
    distinct, which = np.unique(facts, axis=0, return_inverse=True)
    texts = [_text(forest.feature_names[int(row[0])], *row[1:]) for row in distinct]
    return [texts[number] for number in which.ravel()]


def _text(feature: str, n_trees: float, lower: float, upper: float) -> str | None:
    if n_trees == 0:
        return None
    trees = "1 tree" if n_trees == 1 else f"{n_trees:.0f} trees"
    if np.isinf(upper):
        return f"{feature} >= {lower:g} ({trees})"
    if np.isinf(lower):
        return f"{feature} < {upper:g} ({trees})"
    return f"{lower:g} <= {feature} < {upper:g} ({trees})"
