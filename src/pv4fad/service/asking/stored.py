"""The model that is asked with, as the payment network's store has it.

The service is a guest of that store.  A station may be working beside it: a match adds accounts, a
refresh brings new keys.  `Following` looks for that, and gives the engine the new tables while
payments come in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from pv4fad.errors import StoreError
from pv4fad.lead.judging import Judging
from pv4fad.lead.new_accounts import new_accounts, note_new_accounts
from pv4fad.logs import Seldom
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.tables import AccountKey
from pv4fad.service.asking.engine import LiveEngine
from pv4fad.service.asking.knowledge import KnownNow, known_now
from pv4fad.service.asking.model import LiveModel, read_model
from pv4fad.service.journal import Journal
from pv4fad.store.records import Records
from pv4fad.store.store import Store

LOOK_EVERY_S = 2.0
TAKE_OVER_EVERY_S = 600.0
_SAY_EVERY_S = 60.0
_log = logging.getLogger("pv4fad.live")


class StoredModel:
    """Of one run."""

    def __init__(
        self, store: Store, run_id: str, judging: Judging, journal: Journal, folder: Path
    ) -> None:
        """`folder`: on whose disk the shares are put, in a file without a name."""
        self._store, self._run_id, self._judging = store, run_id, judging
        self._journal, self._folder = journal, folder

    def in_force(self) -> tuple[int, ...]:
        """The matches whose tables are in use."""
        with self._store.transaction() as tx:
            return tuple(Records(tx, self._run_id).get(MatchesInForce).epochs)

    def take_over(self) -> KnownNow:
        """What is known; what the journal has of it goes into the store."""
        noted = list(self._journal.questions())
        found = known_now(self._store, self._run_id, noted, len(self._judging.sets))
        if found.left is not None:
            self._journal.replace_questions(len(noted), found.left)
        return found

    def read(self) -> LiveModel:
        known = self.take_over().bits
        return read_model(self._store, self._run_id, self._judging, known, self._folder)

    def note(self, accounts: Sequence[AccountKey]) -> None:
        """They wait for the next match."""
        note_new_accounts(self._store, self._run_id, accounts)

    def noted(self) -> list[AccountKey]:
        """Those that wait."""
        return [key for part in new_accounts(self._store, self._run_id).values() for key in part]


class Following:
    """Keeps an engine up to date, inside `async with`."""

    def __init__(
        self,
        engine: LiveEngine,
        stored: StoredModel,
        in_force: tuple[int, ...],
        failed: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """`in_force`: the matches that the engine's model has, or had when it was read.

        `failed` is called with every error that nobody expected.
        """
        self._engine, self._stored, self._in_force = engine, stored, in_force
        self._failed, self._errors = failed, Seldom(_log, _SAY_EVERY_S)
        self._taken_over = time.monotonic()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with suppress(StoreError):
            await self._note()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except StoreError as error:  # somebody else has it for a while
                _log.warning("%s", error)
            except Exception as error:
                self._failed(error)
                self._errors.say(
                    "whether another match is in force is not known, and tried again",
                    level=logging.ERROR,
                    raised=error,
                )

    async def _look(self) -> None:
        await self._note()
        in_force = await asyncio.to_thread(self._stored.in_force)
        if in_force != self._in_force:
            model = await asyncio.to_thread(self._stored.read)
            await self._engine.use(model)
            self._engine.newcomers.wait(await asyncio.to_thread(self._stored.noted))
            self._in_force, self._taken_over = in_force, time.monotonic()
            _log.info("another match is in force: %d accounts", len(model.tables.slot))
        elif time.monotonic() - self._taken_over > TAKE_OVER_EVERY_S:
            await asyncio.to_thread(self._stored.take_over)
            self._taken_over = time.monotonic()

    async def _note(self) -> None:
        accounts = self._engine.newcomers.to_note()
        if accounts:
            await asyncio.to_thread(self._stored.note, accounts)
            self._engine.newcomers.are_noted(accounts)
