"""What a scoring told the payment network about the banks' records, in numbers."""

from __future__ import annotations

from pv4fad.run.scoring_record import ScoringRecord

VOTES_TELL = (
    "The payment network got a vote total for each side of every payment.  Vote totals tell kinds"
    " of accounts apart: it can now know the kind of flag of most accounts that it scored."
)


def learned_lines(record: ScoringRecord) -> list[str]:
    """In plain words, one sentence each."""
    learned = record.learned
    if learned is None:
        return [VOTES_TELL]
    return [
        f"Asked about {learned.payments_asked:,} of {learned.payments:,} payments:"
        f" {learned.accounts_asked:,} of {learned.accounts:,} accounts.",
        f"{learned.alerts:,} alerts, {learned.bank_alerts:,} of them made or raised by a bank's"
        " answer.",
        f"The payment network now knows a bit about {record.accounts_known:,} accounts; not"
        f" ordinary among them: {record.accounts_positive:,}.",
    ]
