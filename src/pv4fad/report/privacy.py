"""The section on privacy: ε and what it means, in the order that NIST SP 800-226 asks for."""

from __future__ import annotations

from collections.abc import Mapping

from pv4fad.privacy.effective import WARN_ABOVE, guessing_bound, is_weak
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon, upper_text
from pv4fad.privacy.ledger import Ledger
from pv4fad.report.leakage import ASSUMPTIONS
from pv4fad.report.markup import Content, Markup, join, tag
from pv4fad.report.tables import facts, table
from pv4fad.run.document import Bounds, Privacy, RunDocument
from pv4fad.run.scoring_record import ScoringRecord

VOTES_TELL = (
    "Vote totals, for each side of every payment. They tell kinds of accounts apart: the payment"
    " network can now know the kind of flag of most accounts that it scored. The noise of training"
    " does not change that."
)
WEAK = f"An ε above {WARN_ABOVE}, or none, protects a single record little."
_KEPT = tag(
    "p",
    "An account is asked about at most once for each set of classes until all accounts are matched"
    " anew. About all other accounts the payment network has what training released, and no more.",
    class_="soft",
)
_EPSILON_HEADINGS = ("if", "ε", "a guess about one record is right at most")
_NOISE = {
    "distributed": "the banks add it together",
    "per-bank": "every bank adds all of it",
    "none": "none at all: nothing is private",
}


def claim(document: RunDocument) -> Markup:
    """The claim in full, and what it does not cover: scoring."""
    privacy, loud = document.privacy, "notice alarm"
    weak, votes = is_weak(parse_epsilon(privacy.epsilon)), document.parameters.mode == "sealed"
    return join(
        [
            tag(
                "p",
                tag("b", f"ε = {privacy.epsilon}. "),
                privacy.claim,
                class_=loud if weak else "notice",
            ),
            tag("p", tag("b", WEAK), class_=loud) if weak else None,
            tag(
                "p",
                tag("b", "Outside the claim. "),
                privacy.outside_the_claim,
                class_=loud if votes else "notice",
            ),
        ]
    )


def epsilon_table(privacy: Privacy, n_banks: int) -> Markup:
    """ε as claimed, and with one honest bank only; bounds are rounded up."""
    if privacy.effective_epsilon is None:
        return table(_EPSILON_HEADINGS, [("there is no noise", "none", "100 %")], numbers=[1, 2])
    claimed = (privacy.epsilon, _percent(privacy.guessing_bound))
    alone = privacy.effective_epsilon
    if privacy.noise == "distributed" and privacy.honest_banks > 1:
        honest = f"at least H = {privacy.honest_banks} of {n_banks} banks"
        rows = [
            (f"{honest} add their noise and keep it to themselves", *claimed),
            ("only one bank does: for its records", upper_text(alone, 2), _guess(alone)),
        ]
    else:
        rows = [("the bank of the record adds its noise, whatever others do", *claimed)]
    return table(_EPSILON_HEADINGS, rows, numbers=[1, 2])


def learned_table(scoring: ScoringRecord | None) -> Markup:
    """What scoring told the payment network about banks' records, in numbers."""
    if scoring is None:
        return tag("p", "Not known: there is no record of a scoring.", class_="notice")
    learned = scoring.learned
    if learned is None:
        return tag("p", VOTES_TELL, class_="notice alarm")
    shares = [
        ("payments that it asked a bank for", learned.payments_asked, learned.payments),
        ("payments that became alerts", learned.alerts, learned.payments),
        ("alerts that a bank's answer made or raised", learned.bank_alerts, learned.alerts),
        ("accounts that it asked about", learned.accounts_asked, learned.accounts),
    ]
    known, positive = scoring.accounts_known, scoring.accounts_positive
    rows: list[tuple[Content, ...]] = [
        (what, f"{n:,}", f"{of:,}", f"{n / max(of, 1):.1%}") for what, n, of in shares
    ]
    rows += [
        ("accounts about which it knows a bit, over all scorings", f"{known:,}", "", ""),
        (
            "of these, known not to be ordinary",
            f"{positive:,}",
            f"{known:,}",
            f"{positive / max(known, 1):.1%}",
        ),
    ]
    return join([table(["", "number", "of", "share"], rows, numbers=[1, 2, 3]), _KEPT])


def claim_facts(document: RunDocument) -> Markup:
    """Parameter by parameter."""
    privacy = document.privacy
    noise = _NOISE[privacy.noise]
    return facts(
        [
            ("unit of privacy", f"{privacy.unit}; k records of one person are covered by k·ε"),
            ("what is released", _released(document)),
            ("mechanism", _mechanism(document)),
            ("sensitivity Δ", f"{privacy.sensitivity}, in L1 over all sums of the run"),
            ("ε of this run", privacy.epsilon),
            ("δ", _delta(document)),
            ("who adds the noise", f"{privacy.noise}: {noise}"),
            ("protects against", "the payment network, the aggregator, and other banks as above"),
            ("composition", "runs add up, over all versions of an account file; no amplification"),
        ]
    )


def trust() -> Markup:
    """What has to hold for the claim to hold."""
    return tag("ol", *(tag("li", one) for one in ASSUMPTIONS))


def bounds_table(bounds: Bounds) -> Markup:
    """What can go wrong by chance."""
    rows: list[tuple[Content, ...]] = [
        ("sanitised ciphertexts differ from uniform (distance)", _power(bounds.log2_distance)),
        ("two different accounts are taken for the same", _power(bounds.log2_false_match)),
        ("a noisy sum leaves the range of numbers", _power(bounds.log2_wrap)),
        ("accounts do not fit their table; the run stops", _power(bounds.log2_placement_failure)),
        ("too many accounts in a bin; the run stops", _power(bounds.log2_too_many_layers)),
        ("something decrypts to a wrong value", _power(bounds.log2_decryption_failure)),
    ]
    return table(["what can go wrong by chance", "at most"], rows, numbers=[1])


def ledgers(kept: Mapping[str, Ledger]) -> Markup:
    """What every bank has spent, as it keeps it itself; entry by entry on demand."""
    rows = [
        (bank, *map(_amount, (ledger.spent, ledger.limit, ledger.left)))
        for bank, ledger in kept.items()
    ]
    entries = (
        tag("details", tag("summary", f"Entries of {bank}"), _entries(ledger))
        for bank, ledger in kept.items()
    )
    spent = table(["bank", "ε spent", "its limit", "left"], rows, numbers=[1, 2, 3])
    return join([spent, *entries])


def _entries(ledger: Ledger) -> Markup:
    rows = [
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
    return table(["time", "run", "ε", "H", "ε if H = 1", "Δ", "noise", "account file"], rows)


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


def _delta(document: RunDocument) -> Markup:
    bounds = document.bounds
    distance, false_match = _power(bounds.log2_distance), _power(bounds.log2_false_match)
    return join(
        [
            "none in the mechanism; computational, plus ",
            distance,
            " (sanitising) and ",
            false_match,
            " (two accounts taken for one)",
        ]
    )


def _guess(epsilon: float) -> str:
    return _percent(guessing_bound(epsilon))


def _percent(probability: float) -> str:
    return f"{upper_text(100 * probability, 1)} %"


def _power(log2: float) -> Markup:
    return join(["2", tag("sup", f"{log2:.1f}".removesuffix(".0").replace("-", "−"))])
