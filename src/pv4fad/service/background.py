"""Tasks that the service cannot do without: when one of them ends, so does the service.

Without it the service would seem alive and judge or deliver nothing.  Ended, whoever watches over
the process starts it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_log = logging.getLogger("pv4fad.service")


class Background:
    """Of one service; used in its event loop."""

    def __init__(self, failed: Callable[[BaseException], None] = lambda _: None) -> None:
        """`failed` is called with the error that ended a task."""
        self._failed = failed
        self.ended = ""
        """The first task that has ended too early."""
        self.end_service: Callable[[], None] = lambda: None
        """Set by who serves; called when a task has ended too early."""

    @asynccontextmanager
    async def running(self, what: str, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """`work` runs until the block ends."""
        task = asyncio.create_task(work)

        def ended(_: object) -> None:
            self._take_note(what, None if task.cancelled() else task.exception())

        task.add_done_callback(ended)
        try:
            yield
        finally:
            task.remove_done_callback(ended)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _take_note(self, what: str, error: BaseException | None) -> None:
        while isinstance(error, BaseExceptionGroup):  # of tasks within the task
            error = error.exceptions[0]
        _log.error("%s has ended: the service ends, too", what, exc_info=error)
        if error is not None:
            self._failed(error)
        self.ended = self.ended or what
        self.end_service()
