"""Whether a bank's ledger fits to what it has shown, and to its own limits.

Of δ the ledger has only the limits; what was charged, in all, every message says, with its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pv4fad.audit.kept_ledger import KeptLedger
from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.stamp import Mark
from pv4fad.privacy.delta import DEFAULT_LIMIT, delta_text
from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.privacy.ledger import DeltaLimit, Expense, Ledger, Spent
from pv4fad.protocol.count.messages import NoisySums
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import kind_in_id

_YEAR_MS = 364 * 24 * 3600 * 1000  # so much lies within 365 days, whatever the time of day

Shown = tuple[str, LoggedMessage]
"""To whom, and the message that it was shown with."""


Named = tuple[str, str]
"""A party, and what there is to say about it."""


@dataclass(frozen=True)
class LedgerAudit:
    """What the comparison has shown."""

    faults: tuple[Named, ...]
    notes: tuple[Named, ...]
    """What nobody can check any more: no fault."""


def verify_ledgers(
    logs: Sequence[LogFile],
    shown: Mapping[str, Sequence[Shown]],
    held: Mapping[str, Sequence[Shown]],
    runs: Sequence[RunParameters],
) -> LedgerAudit:
    """`shown`: what each party has signed, in its own log or another; `held`: in another."""
    faults: list[Named] = []
    notes: list[Named] = []
    ledgers: dict[str, KeptLedger] = {}
    terms = {run.run_id: _terms_of(run) for run in runs}
    for log in logs:
        party, kept = log.party, KeptLedger.of(log)
        if kept is None:
            faults.append((party, "its ledger cannot be read"))
            continue
        released = _releases(log, shown[party])
        of_log = [*_of_log(kept, shown[party]), *_unpaid(kept, released)]
        of_run = [*_other_terms(kept, terms), *_restored_with_less(kept, released, terms)]
        if not of_log and not of_run:
            ledgers[party] = kept
        faults += [(party, what) for what in of_log]
        # Nobody has signed a run.json: the payment network writes it.
        faults += [(f"{party} and {PAYMENT_NETWORK}", f"by run.json {what}") for what in of_run]
        notes += [(party, what) for what in _restorations(kept, held[party])]
    return LedgerAudit((*faults, *_terms_differ(ledgers)), tuple(notes))


Release = tuple[str, LoggedMessage]
"""Of which run, and the message with the sums."""


def _releases(log: LogFile, shown: Sequence[Shown]) -> list[Release]:
    own = {m for chain in log.chains if chain.direction == "sent" for m in chain.messages}
    return [
        (message.message.split("/")[0], message)
        for _, message in shown
        if kind_in_id(message.message) == NoisySums.kind
        and (message.names_itself or message in own)
    ]


def _of_log(kept: KeptLedger, shown: Sequence[Shown]) -> Iterator[str]:
    """What is wrong with it; `shown`: messages that this party has signed."""
    for receiver, message in shown:
        yield from _shown_otherwise(kept, message, f"message {message.number} to {receiver}")
    yield from _exceeded(kept.ledger)
    yield from _delta_exceeded(kept.ledger, shown)


def _shown_otherwise(kept: KeptLedger, message: LoggedMessage, where: str) -> Iterator[str]:
    mark, spent, n_entries = message.ledger.mark(), message.spent, kept.n_entries
    if mark.number > n_entries:
        yield (
            f"its ledger has {n_entries} entries, and had {mark.number} in {where}: it left"
            " some out, or its store was put back"
        )
    elif mark != kept.marks.get(mark.number, mark):  # those that were lost are not known
        yield f"the first {mark.number} entries of its ledger are not those of {where}"
    elif spent is not None:
        said, restored = spent.spent(), kept.restored_at(mark.number)
        amount = kept.spent[mark.number] if restored is None else restored.epsilon
        steps = Spent.of(amount, Fraction(0)).epsilon_steps
        if said.epsilon_steps > steps or (restored is None and said.epsilon_steps < steps):
            yield (
                f"its ledger comes to ε = {epsilon_text(amount)}, and to"
                f" {epsilon_text(said.epsilon)} in {where}"
            )


def _restorations(kept: KeptLedger, held: Sequence[Shown]) -> Iterator[str]:
    """What nobody can check any more; `held`: messages of this party in the logs of others."""
    for numbers, restored in kept.lost:
        last = Mark(restored.entries, bytes.fromhex(restored.head))
        holders = sorted({who for who, message in held if message.ledger.mark() == last})
        in_words = (
            f"as {', '.join(holders)} can show by what it signed"
            if holders
            else "not checked: no log of another party that was given shows that"
        )
        yield (
            f"its ledger was restored on {restored.time:%Y-%m-%d}: entries {numbers.start} to"
            f" {restored.entries} are lost, by which it had spent ε ="
            f" {epsilon_text(restored.epsilon)} in all, {in_words}"
        )


Terms = tuple[Epsilon, int, str, int]
"""Of a release: ε, Δ, noise, H."""


def _terms_of(parameters: RunParameters) -> Terms:
    """As each bank of the run has to enter them."""
    n_honest = parameters.honest_banks if parameters.noise == "distributed" else 1
    return parameters.exact_epsilon, parameters.sensitivity, parameters.noise, n_honest


def _other_terms(kept: KeptLedger, runs: Mapping[str, Terms]) -> Iterator[str]:
    """Expenses that are not what their run says."""
    for expense in kept.ledger.expenses:
        entered = _entered(expense)
        expected = runs.get(expense.run_id, entered)
        if entered != expected:
            yield (
                f"run {expense.run_id} has {_terms_text(expected)}, and in the ledger"
                f" {_terms_text(entered)}"
            )


def _terms_differ(ledgers: Mapping[str, KeptLedger]) -> Iterator[tuple[str, str]]:
    """Banks that have entered the same run on different terms: who, and what."""
    found: dict[str, dict[Terms, list[str]]] = {}
    for party, kept in ledgers.items():
        for expense in kept.ledger.expenses:
            found.setdefault(expense.run_id, {}).setdefault(_entered(expense), []).append(party)
    for run_id, entered in found.items():
        if len(entered) > 1:
            shown = "; ".join(
                f"{_terms_text(terms)} in that of {', '.join(who)}"
                for terms, who in entered.items()
            )
            named = " and ".join(dict.fromkeys(one for who in entered.values() for one in who))
            yield named, f"their ledgers have run {run_id} on different terms: {shown}"


def _entered(expense: Expense) -> Terms:
    return expense.epsilon, expense.sensitivity, expense.noise, expense.honest_banks


def _terms_text(terms: Terms) -> str:
    epsilon, sensitivity, noise, n_honest = terms
    return f"ε = {epsilon_text(epsilon)}, Δ = {sensitivity}, noise {noise}, H = {n_honest}"


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


def _unpaid(kept: KeptLedger, released: Sequence[Release]) -> Iterator[str]:
    """Releases without an expense before them; what was entered and is lost nobody knows."""
    for run_id, message in released:
        number = message.ledger.number
        if kept.restored_at(number) is not None:
            continue
        if run_id not in kept.paid:
            yield f"it released sums of run {run_id}, and its ledger has no expense for it"
        elif kept.paid[run_id] > number:
            yield f"it released sums of run {run_id} before its ledger had the expense"


def _restored_with_less(
    kept: KeptLedger, released: Sequence[Release], terms: Mapping[str, Terms]
) -> Iterator[str]:
    """Than what was there before, and what the runs cost that are known."""
    for numbers, restored in kept.lost:
        runs = {run for run, message in released if message.ledger.number in numbers}
        amounts = [
            kept.spent[numbers.start - 1],
            *(terms[run][0] for run in runs - set(kept.paid) if run in terms),
        ]
        known = [amount for amount in amounts if not isinstance(amount, str)]
        total: Epsilon = sum(known, Fraction(0)) if len(known) == len(amounts) else "none"
        if restored.epsilon != "none" and (isinstance(total, str) or total > restored.epsilon):
            yield (
                f"the releases until the ledger was restored, with what it had before, come to"
                f" ε = {epsilon_text(total)}, and it was restored with"
                f" {epsilon_text(restored.epsilon)}"
            )
