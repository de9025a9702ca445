"""The DP claim by brute force: one account record moves the vector of sums by at most Δ in L1.

For every record of every bank, and every account that could be added: absent and each possible
atom, against each other.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pv4fad.forest.pairs import CountConfig, choose_pairs
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.privacy.bound import sensitivity


def largest_move(case, pairs, kinds):
    """Largest L1 distance between the sums of two neighbouring joins, by kind of neighbour."""
    # In the sets of these cases classes 8 and 9 act alike.
    possible = [atom for atom in range(case.forest.sizes.n_atoms) if atom != 9]
    n_banks = 1 + max(bank for bank, _ in case.records)
    moves = dict.fromkeys(kinds, 0)
    for bank, bare in product(range(n_banks), range(len(case.accounts.tree_of))):
        own_bank = [holder for holder, account in case.records if account == bare]
        if own_bank and bank not in own_bank and bare >= 3:
            continue  # ids below 3 may be at several banks; others must stay globally unique
        without = {key: atoms for key, atoms in case.records.items() if key != (bank, bare)}
        sums = []
        for variant in [without, *(without | {(bank, bare): atoms} for atoms in possible)]:
            counts = TrustedThirdParty(case.forest, case.atoms(variant)).counts(pairs)
            sums.append(counts[:, :-1].ravel())
        distance = np.abs(np.array(sums)[:, None] - np.array(sums)[None]).sum(axis=2)
        moves["added or removed"] = max(moves["added or removed"], distance[0].max())
        moves["changed"] = max(moves["changed"], distance[1:, 1:].max())
    return moves


KINDS = ("added or removed", "changed")


@pytest.mark.parametrize("n_sets", [1, 2])
@pytest.mark.parametrize(
    ("seed", "bound", "weights"), [(0, 1, (1, 1)), (1, 3, (1, 1)), (2, 4, (1, 3))]
)
def test_one_record_moves_the_sums_by_at_most_the_stated_sensitivity(
    make_case, n_sets, seed, bound, weights
):
    case = make_case(seed, n_sets=n_sets, n_transactions=300)
    pairs = choose_pairs(
        case.forest,
        case.codes,
        case.labels,
        case.accounts,
        config=CountConfig(bound=bound, class_weights=weights),
        rng=np.random.default_rng(seed),
    )
    moves = largest_move(case, pairs, KINDS)
    assert moves["added or removed"] <= bound
    assert moves["changed"] <= sensitivity(bound, n_sets)
    # The claim is tight: with less noise some neighbour would be told apart more easily.
    assert max(moves.values()) == sensitivity(bound, n_sets)


def test_bounding_each_bank_and_id_instead_of_each_id_would_break_the_claim(make_case):
    case = make_case(1, n_transactions=300)
    rng = np.random.default_rng(0)
    per_key = type(case.accounts)(
        case.accounts.key_of,
        np.arange(case.accounts.n_keys),
        case.accounts.tree_of[case.accounts.bare_of],
    )
    pairs = choose_pairs(
        case.forest, case.codes, case.labels, per_key, config=CountConfig(bound=1), rng=rng
    )
    # An id that the payment network meets both with and without its bank has two keys, one record.
    assert max(largest_move(case, pairs, KINDS).values()) > sensitivity(1, 1)
