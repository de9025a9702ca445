"""Building a forest from its configuration, a seed, and the payment network's training data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig
from pv4fad.forest.cuts import CutPoints
from pv4fad.forest.random_trees import random_tree
from pv4fad.forest.structure import Forest


def build_forest(
    config: ForestConfig,
    feature_names: Sequence[str],
    features: NDArray[np.float32],
    seed: int,
) -> Forest:
    """A forest of `config.sizes`.  The data only decides the values of cuts."""
    if not feature_names or len(feature_names) != features.shape[1]:
        raise ParameterError(f"{len(feature_names)} names for {features.shape[1]} features")
    shape, schema = config.shape, config.atom_schema
    tested = _tested_features(shape.features, feature_names)
    cut_points = CutPoints(features)
    conditions = [condition.resolve(schema) for condition in shape.conditions]
    # Every tree has its own generator, so that tree t is the same in a larger forest.
    trees = tuple(
        random_tree(
            shape.height,
            conditions,
            config.sizes.groups_per_tree,
            cut_points,
            features=tested,
            rng=rng,
        )
        for rng in np.random.default_rng(seed).spawn(config.n_trees)
    )
    return Forest(trees, tuple(feature_names), schema, config.sizes)


def _tested_features(
    tested: tuple[str, ...] | None, feature_names: Sequence[str]
) -> tuple[int, ...]:
    """The columns that splits may test."""
    names = list(feature_names)
    for name in tested or ():
        if name not in names:
            raise ParameterError(
                f"the forest tests {name!r}, which is no feature of the payment network;"
                f" known: {', '.join(names)}"
            )
    return tuple(range(len(names))) if tested is None else tuple(map(names.index, tested))
