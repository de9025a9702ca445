"""PV4FAD: find anomalies together, privately, in ten lines of Python.

    with pv4fad.simulate(banks, schema=pv4fad.payments.SCHEMA) as federation:
        detector = pv4fad.Detector(epsilon=1, alert_share=0.002).fit(payments, federation)
        alerts = detector.detect(new)

A lead has rows, such as payments; holders, such as banks, keep records about the accounts in them.
Names are imported when they are first used, so that `import pv4fad` is quick.  docs/use/python.md
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"
__all__ = ["Detector", "Schema", "connect", "errors", "load", "payments", "simulate"]

if TYPE_CHECKING:
    from pv4fad import errors, payments
    from pv4fad.api.deployed import connect
    from pv4fad.api.detector import Detector, load
    from pv4fad.api.simulated import simulate
    from pv4fad.schema import Schema

_HOME = {
    "Detector": "pv4fad.api.detector",
    "Schema": "pv4fad.schema",
    "connect": "pv4fad.api.deployed",
    "errors": "pv4fad.errors",
    "load": "pv4fad.api.detector",
    "payments": "pv4fad.payments",
    "simulate": "pv4fad.api.simulated",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"pv4fad has no public name {name!r}; it has {', '.join(__all__)}")
    module = import_module(_HOME[name])
    found = module if name in ("errors", "payments") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
