"""What the section on privacy shows, as text: ε and what it means, what scoring told, ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.effective import WARN_ABOVE, guessing_bound, is_weak
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon, upper_text
from pv4fad.privacy.ledger import Ledger
from pv4fad.report.content import ReportContent
from pv4fad.run.document import Privacy, RunDocument
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.words import Words

Row = tuple[str | int, ...]

_NOISE = {
    "distributed": "the {holders} add it together",
    "per-bank": "every {holder} adds all of it",
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
    """By holder."""


def privacy_view(content: ReportContent) -> PrivacyView:
    """All of it for a run."""
    document, privacy = content.document, content.document.privacy
    words = document.data_schema.words
    return PrivacyView(
        weak=is_weak(parse_epsilon(privacy.epsilon)),
        warn_above=str(WARN_ABOVE),
        epsilons=epsilon_rows(privacy, len(document.parameters.banks), words),
        learned=_learned_rows(content.scoring, words),
        released=words(_released(document)),
        mechanism=_mechanism(document),
        noise=f"{privacy.noise}: {words(_NOISE[privacy.noise])}",
        spent=_spent(content.ledgers),
        entries={bank: _entries(ledger) for bank, ledger in content.ledgers.items()},
    )


def epsilon_rows(privacy: Privacy, n_holders: int, words: Words) -> list[Row]:
    """ε as claimed, and with one honest holder only; bounds are rounded up."""
    if privacy.effective_epsilon is None:
        return [("there is no noise", "none", "100 %")]
    claimed = (privacy.epsilon, _percent(privacy.guessing_bound))
    if privacy.noise != "distributed" or privacy.honest_banks == 1:
        return [(words("the {holder} of the record adds its noise, whatever others do"), *claimed)]
    alone = privacy.effective_epsilon
    honest = words(f"at least H = {privacy.honest_banks} of {n_holders} {{holders}}")
    return [
        (f"{honest} add their noise and keep it to themselves", *claimed),
        (
            words("only one {holder} does: for its records"),
            upper_text(alone, 2),
            _percent(guessing_bound(alone)),
        ),
    ]


def _learned_rows(scoring: ScoringRecord | None, words: Words) -> list[Row]:
    if scoring is None or scoring.learned is None:
        return []
    learned = scoring.learned
    known, positive = scoring.records_known, scoring.records_positive
    shares = (
        ("{rows} for which it asked {a_holder}", learned.rows_asked, learned.rows),
        ("{rows} that became alerts", learned.alerts, learned.rows),
        (
            "alerts that the answer of {a_holder} made or raised",
            learned.holder_alerts,
            learned.alerts,
        ),
        ("{records} that it asked about", learned.records_asked, learned.records),
        ("{records} about which it knows a bit, over all scorings", known, None),
        ("of these, known not to be ordinary", positive, known),
    )
    return [
        (words(name), f"{number:,}", *(("", "") if of is None else _share(number, of)))
        for name, number, of in shares
    ]


def _share(number: int, of: int) -> tuple[str, str]:
    return f"{of:,}", f"{number / max(of, 1):.1%}"


def _spent(ledgers: Mapping[str, Ledger]) -> list[Row]:
    today = datetime.now(UTC).date()
    return [
        (
            bank,
            _amount(ledger.spent),
            _amount(ledger.limit),
            _amount(ledger.left),
            delta_text(ledger.delta.of_year(today)),
            delta_text(ledger.delta.limit),
        )
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
        return f"{sizes.sums:,} noisy counts of {{records}}, known to the {{lead}}"
    labels = f"the labels of {sizes.red_leaves:,} red leaves"
    if document.parameters.mode == "sealed":
        return f"{labels}, hidden in shares (sealed model)"
    return f"{labels}, known to the {{lead}} (released model)"


def _mechanism(document: RunDocument) -> str:
    if document.privacy.epsilon == "none":
        return "none"
    noise = "discrete Laplace noise on every sum, sampled exactly"
    return noise if document.parameters.mode == "counts" else f"{noise}; a label is its sign"


def _percent(probability: float) -> str:
    return f"{upper_text(100 * probability, 1)} %"
