"""The paper's model in the clear: rows of the study (`pv4fad bench utility`).

Trees, pairs, counts and labels are those of `pv4fad train --model paper`; noise is drawn as 25
banks draw it of which 13 keep theirs to themselves.  Two ways to score, as there:

    votes       the share of trees that vote 1, with the true records of both accounts
    decisions   alerts by the per-side rule first; within alerts, and among all others, the share
                of trees that vote 1 with both accounts ordinary
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.forest.decisions import decision_sets
from pv4fad.forest.pairs import choose_pairs, green_labels
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.rows import account_index
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import LABEL, SCHEMA
from pv4fad.privacy.bound import sensitivity
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.noise import polya_share
from pv4fad.tables.features import FeatureTable
from pv4fad.tables.sides import Sides
from pv4fad.verify.comparison import joined_atoms

EPSILONS = ("none", "1")
BANKS, HONEST_BANKS = 25, 13


@dataclass(frozen=True)
class PaperRow:
    """The scores of one way to score, and on how many payments decisions differ from the joint
    vote, how many alert, and how many bits were asked."""

    scores: NDArray[np.float64]
    alerts: int
    different: int = 0
    asked: int = 0


def paper_rows(
    transactions: pl.DataFrame,
    new: pl.DataFrame,
    records: Mapping[str, pl.DataFrame],
    features: tuple[FeatureTable, FeatureTable],
    seed: int,
) -> dict[str, PaperRow]:
    """Scores of new transactions, by row name.

    `records`: of each bank, Holder, Id, Class; `features`: of the transactions, of the new.
    """
    labels = transactions[LABEL].to_numpy().astype(np.int8)
    settings = TrainingSettings(model="paper", epsilon="none")
    config, counting = settings.forest_config(SCHEMA), settings.count_config(labels)
    known, upcoming = features
    forest = build_forest(config, known.names, known.values, seed)
    keys, index = account_index(Sides(SCHEMA, transactions), config.n_trees)
    new_keys, new_index = account_index(Sides(SCHEMA, new), config.n_trees)
    codes, new_codes = forest.route(known.values), forest.route(upcoming.values)
    rng = np.random.default_rng([seed, 1])
    pairs = choose_pairs(forest, codes, labels, index, config=counting, rng=rng)
    green = green_labels(forest, codes, labels, counting.class_weights, counting.label0_rates)
    oracle, scored = (
        TrustedThirdParty(forest, joined_atoms(SCHEMA, one, records, None))
        for one in (keys, new_keys)
    )
    counts = oracle.counts(pairs)
    n_trees = config.n_trees
    rows: dict[str, PaperRow] = {}
    for epsilon in EPSILONS:
        red = oracle.red_labels(
            counts, _noise(epsilon, counting.bound, config.sizes.n_sets, forest.sizes.n_sums)
        )
        votes = scored.votes(new_codes, new_index.key_of, red, green).total
        share = votes / n_trees
        rows[f"paper, votes, ε = {epsilon}"] = PaperRow(share, int((2 * votes > n_trees).sum()))
        truth = scored.decisions(new_codes, new_index.key_of, red, green)
        mine = decision_sets(forest, new_codes, red, green)
        rows[f"paper, decisions, ε = {epsilon}"] = PaperRow(
            truth.alerts + mine.share_alone,
            int(truth.alerts.sum()),
            truth.n_different,
            int(mine.asks.sum()),
        )
    return rows


def _noise(epsilon: str, bound: int, n_sets: int, n_sums: int) -> NDArray[np.int64] | None:
    """The noise of all banks in each sum."""
    exact = parse_epsilon(epsilon)
    if exact == "none":
        return None
    delta = sensitivity(bound, n_sets)
    shares = polya_share(Fraction(exact), delta, HONEST_BANKS, BANKS * n_sums)
    noise: NDArray[np.int64] = shares.reshape(BANKS, n_sums).sum(axis=0)
    return noise
