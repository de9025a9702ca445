"""Whether a bank's ledger fits to what it has shown, and to its own limits.

Of δ the ledger has only the limits; what was charged, in all, every message says, with its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from pv4fad.audit.log import ledger_marks, lost_entries
from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.errors import StoreError
from pv4fad.privacy.delta import DEFAULT_LIMIT, delta_text
from pv4fad.privacy.epsilon import epsilon_text
from pv4fad.privacy.ledger import DeltaLimit, Expense, Ledger, Spent, decode_entry
from pv4fad.protocol.count.messages import NoisySums
from pv4fad.protocol.wire import kind_in_id

_YEAR_MS = 364 * 24 * 3600 * 1000  # so much lies within 365 days, whatever the time of day

Shown = tuple[str, LoggedMessage]
"""To whom, and the message that it was shown with."""


def check_ledger(log: LogFile, shown: Sequence[Shown]) -> Iterator[str]:
    """What is wrong with it; `shown`: messages that this party has signed."""
    entries = [entry.encode() for entry in log.ledger.entries]
    try:
        ledger = Ledger(tuple(map(decode_entry, entries)))
        marks = ledger_marks(bytes.fromhex(log.ledger.salt), entries)
    except (StoreError, ValueError, KeyError, TypeError):
        yield "its ledger cannot be read"
        return
    n_entries, known = marks[-1].number, {mark.number: mark for mark in marks}
    for receiver, message in shown:
        mark = message.ledger.mark()
        where = f"message {message.number} to {receiver}"
        if mark.number > n_entries:
            yield (
                f"its ledger has {n_entries} entries, and had {mark.number} in {where}: it left"
                " some out, or its store was put back"
            )
        elif mark != known.get(mark.number, mark):  # those that were lost are not known
            yield f"the first {mark.number} entries of its ledger are not those of {where}"
        spent = message.spent
        if (
            spent is not None
            and spent.epsilon_steps > Spent.of(ledger.spent, Fraction(0)).epsilon_steps
        ):
            yield (
                f"its ledger comes to ε = {epsilon_text(ledger.spent)}, and to"
                f" {epsilon_text(spent.spent().epsilon)} in {where}"
            )
    yield from _exceeded(ledger)
    yield from _delta_exceeded(ledger, shown)
    lost = lost_entries(entries)
    own = {m for chain in log.chains if chain.direction == "sent" for m in chain.messages}
    kept = (
        message
        for _, message in shown
        if (message.names_itself or message in own)
        and not any(message.ledger.number in numbers for numbers in lost)
    )
    yield from _unpaid(ledger, kept)


def _exceeded(ledger: Ledger) -> Iterator[str]:
    """Expenses that the limit of their time did not allow."""
    for end, entry in enumerate(ledger.entries):
        if not isinstance(entry, Expense):
            continue
        left = Ledger(ledger.entries[:end]).left
        if isinstance(left, str):
            continue
        if isinstance(entry.epsilon, str) or entry.epsilon > left:
            taken, allowed = epsilon_text(entry.epsilon), epsilon_text(Fraction(left))
            yield f"its limit was exceeded: run {entry.run_id} took ε = {taken} of {allowed} left"


def _delta_exceeded(ledger: Ledger, shown: Sequence[Shown]) -> Iterator[str]:
    """The first message by which more was charged within a year than any limit of that year
    allowed."""
    by_time = sorted(shown, key=lambda one: (one[1].time_ms, one[1].number))
    first = 0
    for receiver, message in by_time:
        while message.time_ms - by_time[first][1].time_ms > _YEAR_MS:
            first += 1
        start = by_time[first][1]
        if message.spent is None or start.spent is None:
            continue
        # Both are rounded up.
        steps = message.spent.delta_steps - start.spent.delta_steps - 1
        charged = Fraction(max(steps, 0), 2**64)
        allowed = _delta_allowed(ledger, start.time_ms, message.time_ms)
        if charged > allowed:
            yield (
                f"its limit of δ was exceeded: {delta_text(charged)} within a year up to message"
                f" {message.number} to {receiver}, and {delta_text(allowed)} was allowed"
            )
            return


def _delta_allowed(ledger: Ledger, start_ms: int, end_ms: int) -> Fraction:
    """The largest limit that was in force between these times."""
    in_force, later = DEFAULT_LIMIT, []
    for entry in ledger.entries:
        if isinstance(entry, DeltaLimit):
            time_ms = int(entry.time.timestamp() * 1000)
            if time_ms < start_ms:
                in_force = entry.delta
            elif time_ms <= end_ms:
                later.append(entry.delta)
    return max([in_force, *later])


def _unpaid(ledger: Ledger, messages: Iterable[LoggedMessage]) -> Iterator[str]:
    """Releases without an expense."""
    paid = {expense.run_id for expense in ledger.expenses}
    for message in messages:
        run_id = message.message.split("/")[0]
        if kind_in_id(message.message) == NoisySums.kind and run_id not in paid:
            yield f"it released sums of run {run_id}, and its ledger has no expense for it"
