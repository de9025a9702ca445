"""A forest survives its document, damage is noticed, and a commitment binds and hides."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from pv4fad.errors import DataError
from pv4fad.forest.forest_file import from_document, to_document

NONCE = bytes(range(32))


@pytest.mark.parametrize("n_sets", [1, 2])
def test_a_forest_survives_json_exactly(make_case, n_sets):
    case = make_case(3, n_sets=n_sets)
    restored = from_document(json.loads(json.dumps(to_document(case.forest))))
    assert restored == case.forest
    assert np.array_equal(restored.route(case.features), case.codes)
    assert restored.groups == case.forest.groups


def first_of(document, field):
    """The first node, depth first, that has this field."""
    waiting = list(document["trees"])
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict):
            if field in node:
                return node
            waiting += [node[name] for name in ("below", "above", "subtree") if name in node]
    raise AssertionError(field)


def deep_split(levels):
    node = "leaf"
    for _ in range(levels):
        node = {"feature": 0, "cut": 1.0, "below": node, "above": "leaf"}
    return node


DAMAGE = {
    "another version": lambda d: d.update(version=1),
    "another format": lambda d: d.update(format="something"),
    "no trees": lambda d: d.pop("trees"),
    "too few trees": lambda d: d["trees"].pop(),
    "unknown node": lambda d: d["trees"].__setitem__(0, "twig"),
    "cut as text": lambda d: first_of(d, "cut").update(cut="1"),
    "cut not finite": lambda d: first_of(d, "cut").update(cut=float("inf")),
    "feature out of range": lambda d: first_of(d, "cut").update(feature=99),
    "branch missing": lambda d: first_of(d, "cut").pop("above"),
    "unknown side": lambda d: first_of(d, "side").update(side="middle"),
    "sets overlap": lambda d: first_of(d, "side").update(sets=[[0], [0]]),
    "atom as text": lambda d: first_of(d, "side").update(sets=[["0"]]),
    "atom out of range": lambda d: first_of(d, "side").update(sets=[[99]]),
    "bank below bank": lambda d: first_of(d, "side").update(
        subtree=copy.deepcopy(first_of(d, "side"))
    ),
    "sizes incomplete": lambda d: d["sizes"].pop("n_sets"),
    "sizes as text": lambda d: d["sizes"].update(n_sets="1"),
    "too few groups": lambda d: d["sizes"].update(groups_per_tree=1),
    "side out of range": lambda d: first_of(d, "side").update(side=2),
    "side as text": lambda d: first_of(d, "side").update(side="0"),
    "features as numbers": lambda d: d.update(features=[1, 2, 3, 4]),
    "very deep": lambda d: d["trees"].__setitem__(0, deep_split(400)),
    "a list": lambda d: d.clear(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_document_is_refused(make_case, damage):
    document = to_document(make_case(3).forest)
    damage(document)
    with pytest.raises(DataError, match="forest"):
        from_document(document)
