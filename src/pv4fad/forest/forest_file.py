"""A forest as a plain document: for the payment network's own folder, and to commit to it.

    {"format": "pv4fad forest", "version": 2,
     "features": [...], "sizes": {...}, "trees": [node, ...]}

    node = "leaf" | {"feature", "cut", "below", "above"} | {"side", "sets", "subtree"}

Dummy groups are not written: they follow from the sizes.  A document is checked like a new forest.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.structure import MAX_HEIGHT, Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Node, Split

FORMAT = "pv4fad forest"
VERSION = 2
NONCE_BYTES = 32


def to_document(forest: Forest) -> dict[str, Any]:
    """The forest as dicts, lists, strings and numbers."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "features": list(forest.feature_names),
        "sizes": asdict(forest.sizes),
        "trees": [_node_document(tree) for tree in forest.trees],
    }


def from_document(document: Any) -> Forest:
    """The forest of a document; DataError if it is damaged, of another version, or no forest."""
    match document:
        case {"format": str(name), "version": version} if name == FORMAT and version != VERSION:
            raise DataError(f"forest of version {version}; this program reads version {VERSION}")
        case {
            "format": str(name),
            "version": int(),
            "features": [*features],
            "sizes": {**sizes},
            "trees": [*trees],
        } if name == FORMAT and all(isinstance(feature, str) for feature in features):
            pass
        case _:
            raise DataError("not a forest: fields are missing or of the wrong type")
    try:
        nodes = tuple(_node(tree, f"tree {number}", 0) for number, tree in enumerate(trees))
        return Forest(nodes, tuple(features), _sizes(sizes))
    except ParameterError as error:
        raise DataError(f"forest: {error}") from None


def _node_document(node: Node) -> Any:
    match node:
        case Split(feature, cut, below, above):
            children = {"below": _node_document(below), "above": _node_document(above)}
            return {"feature": feature, "cut": cut} | children
        case BankNode(condition, subtree):
            return {
                "side": condition.side,
                "sets": [list(one_set) for one_set in condition.sets],
                "subtree": _node_document(subtree),
            }
    return "leaf"


def _node(document: Any, where: str, depth: int) -> Node:
    if depth > MAX_HEIGHT:
        raise DataError(f"forest: {where} is higher than {MAX_HEIGHT}")
    match document:
        case "leaf":
            return Leaf()
        case {"feature": int(feature), "cut": float(cut), "below": below, "above": above}:
            children = (_node(below, where, depth + 1), _node(above, where, depth + 1))
            return Split(feature, cut, *children)
        case {"side": int(side), "sets": [*sets], "subtree": subtree} if not isinstance(
            side, bool
        ) and all(map(_is_atom_list, sets)):
            condition = BankCondition(side, tuple(tuple(atoms) for atoms in sets))
            return BankNode(condition, _node(subtree, where, depth + 1))
    raise DataError(f"forest: {where} has a node that is neither leaf, split nor bank node")


def _sizes(document: dict[Any, Any]) -> PublicSizes:
    expected = {field.name for field in fields(PublicSizes)}
    if set(document) != expected or not all(map(_is_int, document.values())):
        raise DataError("forest: 'sizes' does not hold the public sizes")
    return PublicSizes(**document)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_atom_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_int, value))
