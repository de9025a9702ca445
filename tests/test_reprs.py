"""No repr, and so no log line or traceback, shows a secret: keys, shares, accounts, trees."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass

import pytest

from pv4fad.protocol.wire import Message

PACKAGES = ("he", "hashing", "parties", "privacy", "protocol")
SECRET_TYPES = ("bytes", "NDArray", "Residues", "Forest", "GroupCounts", "SparseSum")
PUBLIC = {
    ("PublicIdentity", "signing_key"),
    ("PublicIdentity", "pairwise_key"),
    ("PublicIdentity", "signature"),
    # Two sealed values.
    ("KeyLock", "locked_key"),
    ("StoreInfo", "manifest"),
}


def dataclasses_of(package: str):
    root = importlib.import_module(f"pv4fad.{package}")
    for module in pkgutil.walk_packages(root.__path__, f"pv4fad.{package}."):
        for one in vars(importlib.import_module(module.name)).values():
            if is_dataclass(one) and isinstance(one, type) and one.__module__ == module.name:
                yield one


@pytest.mark.parametrize("package", PACKAGES)
def test_fields_that_can_hold_secrets_are_left_out_of_reprs(package):
    shown = [
        (cls.__name__, field.name)
        for cls in dataclasses_of(package)
        if not issubclass(cls, Message)  # these show sizes only
        for field in fields(cls)
        if field.repr and any(kind in str(field.type) for kind in SECRET_TYPES)
    ]
    assert [one for one in shown if one not in PUBLIC] == []
