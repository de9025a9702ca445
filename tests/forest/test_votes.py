"""Which groups a transaction side reaches, and what green leaves vote."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Split
from pv4fad.forest.votes import green_votes, reached_groups


@pytest.fixture
def mostly_green() -> Forest:
    """Two trees with one group each, and with many more green leaves than groups."""

    def comb(cuts: range) -> Split | Leaf:
        return Split(0, float(cuts[0]), Leaf(), comb(cuts[1:])) if cuts else Leaf()

    trees = tuple(
        Split(0, 0.0, BankNode(BankCondition(side, ((0,),)), Leaf()), comb(range(1, 6)))
        for side in range(2)
    )
    return Forest(trees, ("x",), PublicSizes(2, 1, 1, 1, 11))


def test_green_leaves_ask_no_bank_also_if_there_are_more_of_them_than_groups(mostly_green):
    codes = mostly_green.route(np.array([[-1], [0], [9]], np.float32))
    ordering, beneficiary = (reached_groups(mostly_green, codes, side) for side in range(2))
    assert ordering.tolist() == [[0, -1], [-1, -1], [-1, -1]]
    assert beneficiary.tolist() == [[-1, 1], [-1, -1], [-1, -1]]


def test_green_votes_are_those_of_the_green_leaves_reached(mostly_green):
    codes = mostly_green.route(np.array([[-1], [0], [1], [9]], np.float32))
    labels = np.zeros(mostly_green.n_green, np.int8)
    assert mostly_green.n_green == 12
    labels[0] = labels[5] = labels[11] = 1  # left-most of the first tree, right-most of both
    assert green_votes(codes, labels).tolist() == [0, 1, 0, 2]
    assert green_votes(codes[:0], labels).tolist() == []
