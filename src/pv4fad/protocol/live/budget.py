"""How many live queries a bank answers in a day, over all runs.

The count is in a file of its own, not in the store: a query cannot wait while the party works on a
long transaction.  It is written ahead in blocks, so that a query seldom waits for the disk; a
process that ends loses what is left of its block.  Where the count is lost, because the file is
damaged or the party was restored, nothing is left of the day.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

from pv4fad.errors import DataError, StoreError
from pv4fad.files import write_whole
from pv4fad.privacy.days import counted_day, why_ahead

DEFAULT_TICKS_PER_DAY = 2_000_000
"""20 a second are 1,728,000 a day."""
BLOCK = 4_096
_ALL_OF_A_DAY = 2**62  # whatever is allowed, and will be
_log = logging.getLogger("pv4fad.bank")


def spend_all_of_today(path: Path, today: str) -> str:
    """Nobody knows how many there were; returns the day, which is never before the one noted."""
    try:
        day = counted_day(today, _read(path)[0])
    except DataError:
        day = today
    _write(path, day, _ALL_OF_A_DAY)
    return day


class TickBudget:
    """One per bank; used by one thread."""

    def __init__(
        self,
        path: Path,
        per_day: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        is_booked: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`is_booked`: whether the queries of a day are in the bank's account of δ."""
        self._path, self._per_day, self._now = path, per_day, now
        self._is_booked = is_booked
        self._day, self._spent = self._noted()
        self._left = 0
        """Of the block that the file counts as spent."""
        if ahead := why_ahead(self._clock(), self._day):
            _log.warning("the count of live queries is ahead of the clock%s", ahead)

    @property
    def per_day(self) -> int:
        return self._per_day

    @property
    def day(self) -> str:
        """The latest day on which it was spent from; nothing if there is none."""
        return self._day

    @property
    def left(self) -> int:
        """Of today, as far as is known; another thread may ask."""
        if self._today() != self._day:
            return self._per_day
        return max(0, self._per_day - self._spent) + self._left

    def _today(self) -> str:
        return counted_day(self._clock(), self._day)

    def _clock(self) -> str:
        return self._now().date().isoformat()

    def spend(self) -> bool:
        """One more query, noted on disk; False if the day's budget is spent, or not booked.

        `StoreError` if the disk does not take it; then nothing is spent.
        """
        day = self._today()
        if not self._is_booked(day):
            return False
        if day != self._day:
            self._day, self._spent, self._left = day, 0, 0
        if not self._left:
            block = min(BLOCK, self._per_day - self._spent)
            if block <= 0:
                return False
            _write(self._path, self._day, self._spent + block)
            self._spent += block
            self._left = block
        self._left -= 1
        return True

    def _noted(self) -> tuple[str, int]:
        try:
            return _read(self._path)
        except DataError as error:
            _log.error("%s: no live query is answered before tomorrow (UTC)", error)
            return spend_all_of_today(self._path, self._clock()), _ALL_OF_A_DAY


def _read(path: Path) -> tuple[str, int]:
    """The latest day, and how many of it are spent."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        day, spent = content["day"], content["ticks"]
        if type(spent) is not int or spent < 0:
            raise ValueError
        date.fromisoformat(day)
    except FileNotFoundError:
        return "", 0
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path}, the count of live queries of the day, is damaged") from None
    return day, spent


def _write(path: Path, day: str, spent: int) -> None:
    content = json.dumps({"day": day, "ticks": spent}) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, content, private=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
