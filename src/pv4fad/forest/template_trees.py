"""Shallow designed trees, for the detection recipe: few leaves, each with many accounts in it.

A template fixes the tests; only the cut values of the PNS features come from the payment network's
data.  The number of groups is that of the template, whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pv4fad.errors import ParameterError
from pv4fad.forest.atoms import AtomSchema
from pv4fad.forest.cuts import CutPoints, CutRule
from pv4fad.forest.shapes import CutLine, TreeTemplate
from pv4fad.forest.tree import BankNode, Leaf, Node, Split


def template_tree(
    template: TreeTemplate,
    schema: AtomSchema,
    feature_names: Sequence[str],
    cut_points: CutPoints,
    rng: np.random.Generator,
) -> Node:
    """The tree of a template; `rng` gives the levels that the template leaves open."""
    above = [_cuts(line, feature_names, cut_points, rng) for line in template.above]
    below = [_cuts(line, feature_names, cut_points, rng) for line in template.below]
    conditions: Iterator[Node] = (
        Leaf() if condition is None else BankNode(condition.resolve(schema), _grid(below, Leaf))
        for condition in template.conditions_by_interval()
    )
    return _grid(above, lambda: next(conditions))


_Cuts = tuple[int, list[float]]  # feature, ascending values


def _cuts(
    line: CutLine, feature_names: Sequence[str], cut_points: CutPoints, rng: np.random.Generator
) -> _Cuts:
    if line.feature not in feature_names:
        raise ParameterError(
            f"a template cuts {line.feature!r}, which is no feature of the payment network; "
            f"known: {', '.join(feature_names)}"
        )
    feature = feature_names.index(line.feature)
    if line.rule is CutRule.SUPERVISED:
        levels = [(number + 0.5) / line.n_cuts for number in range(line.n_cuts)]
    elif line.levels is not None:
        levels = list(line.levels)
    else:
        levels = sorted(float(level) for level in rng.random(line.n_cuts))
    return feature, [cut_points.at(line.rule, feature, level, line.n_cuts) for level in levels]


def _grid(lines: Sequence[_Cuts], leaf: Callable[[], Node]) -> Node:
    """Intervals of the first feature, in each of them those of the next; leaves left to right."""
    if not lines:
        return leaf()
    (feature, cuts), *others = lines
    lowest = _grid(others, leaf)
    if not cuts:
        return lowest
    return Split(feature, cuts[0], lowest, _grid([(feature, cuts[1:]), *others], leaf))
