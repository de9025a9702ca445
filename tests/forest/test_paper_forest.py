"""The default of `--model paper` is a forest of the paper's kind and size."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.forest.decisions import account_classes
from pv4fad.forest.paper import paper_counts, paper_forest
from pv4fad.forest.random_trees import build_forest
from pv4fad.payments.features import FEATURE_MEANINGS
from pv4fad.payments.schema import PAPER_CONDITIONS, PAPER_FEATURES, SCHEMA


def forest(n_trees=12, height=6):
    """As the settings make it for payments."""
    return paper_forest(
        n_trees,
        height,
        n_atoms=len(SCHEMA.record.classes),
        listed=PAPER_CONDITIONS,
        features=PAPER_FEATURES,
    )


def test_it_has_no_more_leaves_than_the_papers_and_tests_features_that_exist():
    sizes = forest().sizes
    assert (sizes.n_trees, sizes.n_sets, sizes.n_distinct_sets) == (12, 1, 1)
    assert sizes.n_leaves <= 816
    assert set(PAPER_FEATURES) <= set(FEATURE_MEANINGS)


def test_trees_height_sides_and_bound_can_be_chosen():
    config = paper_forest(5, 3, n_atoms=4, listed=(1, 2, 3))
    counting = paper_counts(0.001, 5, 2)
    assert config.sizes.n_groups == 5 * 2**2
    assert (config.sizes.n_atoms, config.sizes.n_sides) == (4, 3)
    assert [one.side for one in config.shape.conditions] == [0, 1, 1, 2, 2, 2]
    assert counting.bound == 2
    assert counting.label0_rates == pytest.approx(tuple(np.geomspace(0.03, 0.001, 5)))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 1.0])
def test_label_0_is_thinned_by_the_share_of_anomalies(share):
    rates = paper_counts(share).label0_rates
    assert max(rates) == pytest.approx(min(1, max(30 * share, 1e-6)))
    assert min(rates) == pytest.approx(max(share, 1e-6))


def test_it_tells_ordinary_accounts_from_all_others():
    features = np.random.default_rng(0).random((30, len(PAPER_FEATURES))).astype(np.float32)
    made = build_forest(forest(), PAPER_FEATURES, features, seed=0)
    ordinary, others = account_classes(made)
    assert (ordinary.atoms, ordinary.absent) == ((0,), False)
    assert others.absent
