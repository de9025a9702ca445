"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable

_LOOK_EVERY_S = 0.05


def comes_true(condition: Callable[[], object], patience_s: float = 60) -> bool:
    """Wait until the condition holds; whether it did before the patience was at an end."""
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
