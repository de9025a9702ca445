"""Reasons: true of the transaction, and no more than the payment network's own tests."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pv4fad.forest.reasons import reasons
from pv4fad.forest.tree import BankNode, Split

_FACT = re.compile(r"(?:(\S+) <= )?(\w+)(?: < (\S+))?(?: >= (\S+))? \((\d+) trees?\)")


def features_tested(forest, row) -> list[set[int]]:
    """The features that each tree tests on the way of one transaction, walked step by step."""
    found = []
    for tree in forest.trees:
        node, mine = tree, set()
        while isinstance(node, Split | BankNode):
            if isinstance(node, BankNode):
                node = node.subtree
            else:
                mine.add(node.feature)
                node = node.below if row[node.feature] < node.cut else node.above
        found.append(mine)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_reasons_hold_and_say_how_many_trees_tested(make_case, seed):
    case = make_case(seed, n_trees=7)
    forest = case.forest
    texts = reasons(forest, case.codes, most=2)
    assert len(texts) == len(case.codes)
    n_facts = 0
    for row, text in zip(case.features, texts, strict=True):
        trees = features_tested(forest, row)
        counts = [sum(feature in mine for mine in trees) for feature in range(4)]
        facts = [_FACT.fullmatch(one) for one in text.split("; ") if one]
        for fact, rank in zip(facts, sorted(counts, reverse=True), strict=False):
            lower, name, upper, least, n_trees = fact.groups()
            value = row[forest.feature_names.index(name)]
            assert (lower or least) is not None or upper is not None
            assert lower is None or value >= float(lower) - 1e-5
            assert least is None or value >= float(least) - 1e-5
            assert upper is None or value < float(upper) + 1e-5
            assert counts[forest.feature_names.index(name)] == int(n_trees) == rank
            n_facts += 1
        assert len(facts) == min(2, np.count_nonzero(counts))
    assert n_facts > 100


def test_no_transactions_no_reasons(make_case):
    case = make_case(0)
    assert reasons(case.forest, case.codes[:0]).to_list() == []
