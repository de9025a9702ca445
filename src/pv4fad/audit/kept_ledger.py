"""A bank's ledger as its log has it, read with care: it comes from somebody else.

Entries that were lost when a ledger was restored are not there, and what they came to is only what
the entry about the restoration says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from pydantic import Field

from pv4fad.audit.log import ledger_marks, lost_entries
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.stamp import Mark
from pv4fad.errors import UserError
from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.privacy.ledger import Entry, Expense, Ledger, Restored, decode_entry
from pv4fad.protocol.parameters import Name, NoiseMode
from pv4fad.validated import ValidatedModel

_AMOUNT = "^(none|[0-9]{1,1000}(/[1-9][0-9]{0,999})?)$"
_MOST_DIGITS = 1000


class _RawEntry(ValidatedModel):
    """Of which form the fields of an entry are: it comes from somebody else."""

    version: int
    kind: str
    time: str
    epsilon: str = Field("0", pattern=_AMOUNT)
    delta: str = Field("0", pattern=_AMOUNT)
    run_id: Name = "run"
    sensitivity: int = 1
    unit: str = ""
    noise: NoiseMode = "none"
    account_file: str = ""
    honest_banks: int = 1
    entries: int = Field(0, ge=0, lt=2**64)
    head: str = Field("", pattern="^([0-9a-f]{64})?$")
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptLedger:
    """A ledger as a log has it, read."""

    ledger: Ledger
    marks: dict[int, Mark]
    """After so many entries."""
    spent: dict[int, Epsilon]
    paid: dict[str, int]
    """Of each run, by which number its expense was entered."""
    lost: tuple[tuple[range, Restored], ...]
    """Which entries it lost when it was restored."""

    @classmethod
    def of(cls, log: LogFile) -> Self | None:
        """None: it cannot be read."""
        try:
            entries = [entry.encode() for entry in log.ledger.entries]
            for raw in entries:
                _RawEntry.model_validate_json(raw)
            ledger = Ledger(tuple(map(decode_entry, entries)))
            marks = ledger_marks(bytes.fromhex(log.ledger.salt), entries)
            spent = {0: Ledger(()).spent} | {
                number: Ledger(ledger.entries[:end]).spent
                for end, (number, _) in enumerate(_numbered(ledger), 1)
            }
            readable = all(len(epsilon_text(amount)) < _MOST_DIGITS for amount in spent.values())
        except (UserError, ValueError, KeyError, TypeError, ArithmeticError):
            return None
        if not readable or any(one.number >= after.number for one, after in pairwise(marks)):
            return None
        paid: dict[str, int] = {}
        for number, entry in _numbered(ledger):
            if isinstance(entry, Expense):
                paid.setdefault(entry.run_id, number)
        by_number, lost = {one.number: one for one in marks}, tuple(lost_entries(entries))
        return cls(ledger, by_number, spent, paid, lost)

    @property
    def n_entries(self) -> int:
        return max(self.marks)

    def restored_at(self, number: int) -> Restored | None:
        """By what the entries up to this number were replaced, if they are lost."""
        return next((restored for numbers, restored in self.lost if number in numbers), None)


def _numbered(ledger: Ledger) -> Iterator[tuple[int, Entry]]:
    """Those that are there, from 1; entries that were lost have numbers, too."""
    number = 0
    for entry in ledger.entries:
        number = (entry.entries if isinstance(entry, Restored) else number) + 1
        yield number, entry
