"""The kinds of messages that there are."""

import importlib
import pkgutil

import pv4fad.protocol
from pv4fad.protocol.wire import Message


def kinds_in_code() -> set[str]:
    for module in pkgutil.walk_packages(pv4fad.protocol.__path__, "pv4fad.protocol."):
        importlib.import_module(module.name)
    return {
        cls.kind
        for cls in Message.__subclasses__()
        if cls.__module__.startswith("pv4fad.protocol.")
    }
