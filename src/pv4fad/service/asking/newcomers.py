"""Accounts of the federation's banks that payments have met and that are in no table."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice

from pv4fad.protocol.tables import AccountKey

MOST = 1_000_000
"""That wait for a match; what is lost here comes again with the account's next payment."""
_MOST_AT_ONCE = 50_000
_log = logging.getLogger("pv4fad.live")


class Newcomers:
    """Used on one event loop."""

    def __init__(self) -> None:
        self._noted: set[AccountKey] = set()
        self._met: dict[AccountKey, None] = {}
        self._is_full = False

    def __len__(self) -> int:
        return len(self._noted) + len(self._met)

    def meet(self, accounts: Iterable[AccountKey]) -> None:
        """Payments of these have come."""
        for account in accounts:
            if account not in self._noted:
                if len(self) < MOST:
                    self._met[account] = None
                elif not self._is_full:
                    self._is_full = True
                    _log.warning("%d new accounts wait: start the job match", MOST)

    def to_note(self) -> list[AccountKey]:
        """Some that are not on disk."""
        return list(islice(self._met, _MOST_AT_ONCE))

    def are_noted(self, accounts: Iterable[AccountKey]) -> None:
        """They are on disk now."""
        for account in accounts:
            self._noted.add(account)
            self._met.pop(account, None)

    def wait(self, noted: Iterable[AccountKey]) -> None:
        """After a match: only these wait on disk."""
        self._noted, self._is_full = set(noted), False
