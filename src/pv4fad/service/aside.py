"""Work beside the event loop, if there is so much of it that others should not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

FEW = 50
"""Payments: to check or judge so many takes some milliseconds, as waiting for a thread can."""
T = TypeVar("T")


async def aside(n_payments: int, work: Callable[..., T], *arguments: object) -> T:
    """In a thread, unless the payments are few."""
    if n_payments <= FEW:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
