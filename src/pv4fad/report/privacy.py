"""What the section on privacy shows, as text: ε and what it means, what scoring told, ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pv4fad.privacy.effective import WARN_ABOVE, guessing_bound, is_weak
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon, upper_text
from pv4fad.privacy.ledger import Ledger
from pv4fad.report.content import ReportContent
from pv4fad.run.document import Privacy, RunDocument
from pv4fad.run.scoring_record import ScoringRecord

Row = tuple[str | int, ...]

_NOISE = {
    "distributed": "the banks add it together",
    "per-bank": "every bank adds all of it",
    "none": "none at all: nothing is private",
}


@dataclass(frozen=True)
class PrivacyView:
    """The values of `privacy.html`."""

    weak: bool
    warn_above: str
    epsilons: list[Row]
    learned: list[Row]
    released: str
    mechanism: str
    noise: str
    spent: list[Row]
    entries: dict[str, list[Row]]
    """By bank."""


def privacy_view(content: ReportContent) -> PrivacyView:
    """All of it for a run."""
    document, privacy = content.document, content.document.privacy
    return PrivacyView(
        weak=is_weak(parse_epsilon(privacy.epsilon)),
        warn_above=str(WARN_ABOVE),
        epsilons=epsilon_rows(privacy, len(document.parameters.banks)),
        learned=_learned_rows(content.scoring),
        released=_released(document),
        mechanism=_mechanism(document),
        noise=f"{privacy.noise}: {_NOISE[privacy.noise]}",
        spent=_spent(content.ledgers),
        entries={bank: _entries(ledger) for bank, ledger in content.ledgers.items()},
    )


def epsilon_rows(privacy: Privacy, n_banks: int) -> list[Row]:
    """ε as claimed, and with one honest bank only; bounds are rounded up."""
    if privacy.effective_epsilon is None:
        return [("there is no noise", "none", "100 %")]
    claimed = (privacy.epsilon, _percent(privacy.guessing_bound))
    if privacy.noise != "distributed" or privacy.honest_banks == 1:
        return [("the bank of the record adds its noise, whatever others do", *claimed)]
    alone = privacy.effective_epsilon
    honest = f"at least H = {privacy.honest_banks} of {n_banks} banks"
    return [
        (f"{honest} add their noise and keep it to themselves", *claimed),
        (
            "only one bank does: for its records",
            upper_text(alone, 2),
            _percent(guessing_bound(alone)),
        ),
    ]


def _learned_rows(scoring: ScoringRecord | None) -> list[Row]:
    if scoring is None or scoring.learned is None:
        return []
    learned = scoring.learned
    known, positive = scoring.accounts_known, scoring.accounts_positive
    return [
        _share_row("payments that it asked a bank for", learned.payments_asked, learned.payments),
        _share_row("payments that became alerts", learned.alerts, learned.payments),
        _share_row(
            "alerts that a bank's answer made or raised", learned.bank_alerts, learned.alerts
        ),
        _share_row("accounts that it asked about", learned.accounts_asked, learned.accounts),
        ("accounts about which it knows a bit, over all scorings", f"{known:,}", "", ""),
        _share_row("of these, known not to be ordinary", positive, known),
    ]


def _share_row(name: str, number: int, of: int) -> Row:
    return (name, f"{number:,}", f"{of:,}", f"{number / max(of, 1):.1%}")


def _spent(ledgers: Mapping[str, Ledger]) -> list[Row]:
    return [
        (bank, _amount(ledger.spent), _amount(ledger.limit), _amount(ledger.left))
        for bank, ledger in ledgers.items()
    ]


def _entries(ledger: Ledger) -> list[Row]:
    return [
        (
            expense.time.isoformat(sep=" ", timespec="seconds"),
            expense.run_id,
            epsilon_text(expense.epsilon),
            expense.honest_banks,
            upper_text(expense.epsilon_alone, 2),
            expense.sensitivity,
            expense.noise,
            expense.account_file[:12],
        )
        for expense in ledger.expenses
    ]


def _amount(value: Epsilon | None) -> str:
    return "not set" if value is None else epsilon_text(value)


def _released(document: RunDocument) -> str:
    sizes = document.sizes
    if sizes.red_leaves is None:
        return f"{sizes.sums:,} noisy counts of accounts, known to the payment network"
    labels = f"the labels of {sizes.red_leaves:,} red leaves"
    if document.parameters.mode == "sealed":
        return f"{labels}, hidden in shares (sealed model)"
    return f"{labels}, known to the payment network (released model)"


def _mechanism(document: RunDocument) -> str:
    if document.privacy.epsilon == "none":
        return "none"
    noise = "discrete Laplace noise on every sum, sampled exactly"
    return noise if document.parameters.mode == "counts" else f"{noise}; a label is its sign"


def _percent(probability: float) -> str:
    return f"{upper_text(100 * probability, 1)} %"
