"""The payment network as an attacker on released labels (`--model paper --scoring decisions`).

A leaf has label 1 if the weights of the accounts in it add up to more than 0.  How likely that is
depends on whether one more account is in it; all others are in it as likely as ever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from pv4fad.attack.belief import ABSENT, Belief, Integers
from pv4fad.attack.network import Held
from pv4fad.forest.structure import Forest
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.evidence_model import noise_of

_LEAST_DEVIATION = 0.3  # of a sum of whole numbers


def branches(forest: Forest) -> Integers:
    """(groups, classes + 1): the leaf of each group that a record of each class is in."""
    classes = np.array([*range(forest.sizes.n_atoms), ABSENT])
    everybody, n_groups = TrustedThirdParty(forest, classes), forest.sizes.n_groups
    group, key = np.divmod(np.arange(n_groups * len(classes)), len(classes))
    return everybody.branch(group, key).reshape(n_groups, len(classes))


def add_labels(belief: Belief, held: Held, labels: NDArray[np.int8], forest: Forest) -> None:
    """What the labels, (groups, leaves), say about the accounts that count."""
    counted, branch = held.counted, branches(forest)
    n_groups, n_leaves = labels.shape
    noise = noise_of(held.parameters).deviation ** 2
    group, weight = counted.group, counted.weight
    # Of institutions outside it is known that no holder has their accounts.
    outside = ~belief.knows(counted.ids)
    evidence = np.zeros((len(group), branch.shape[1]))
    for leaf in range(n_leaves):
        inside = branch == leaf
        share = np.where(outside, inside[group, -1], (inside @ belief.prior)[group])
        mean, spread = weight * share, weight**2 * share * (1 - share)
        # The last leaf, the rest, has the noise of all others.
        variance = np.bincount(group, spread, n_groups) + noise * max(1, leaf)
        others = np.bincount(group, mean, n_groups)[group] - mean
        deviation = np.sqrt(np.maximum(variance[group] - spread, _LEAST_DEVIATION**2))
        sign = np.where(labels[group, leaf] == 1, 1, -1)
        with_it, without = (
            norm.logcdf(sign * (others + more - 0.5) / deviation) for more in (weight, 0)
        )
        evidence += np.where(inside[group], (with_it - without)[:, np.newaxis], 0.0)
    belief.add(counted.ids, evidence)
