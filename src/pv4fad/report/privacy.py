"""The section on privacy: ε and what it means, in the order that NIST SP 800-226 asks for."""

from __future__ import annotations

from collections.abc import Mapping

from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.privacy.ledger import Ledger
from pv4fad.report.leakage import ASSUMPTIONS
from pv4fad.report.markup import Content, Markup, join, tag
from pv4fad.report.tables import facts, table
from pv4fad.runs.document import Bounds, Privacy, RunDocument
from pv4fad.runs.scoring_record import ScoringRecord

_NOISE = {
    "distributed": "the banks add it together",
    "per-bank": "every bank adds all of it",
    "none": "none at all: nothing is private",
}


def claim(document: RunDocument, scoring: ScoringRecord | None) -> Markup:
    """The claim in full, and what it does not cover: scoring, and what a combiner asked for."""
    privacy = document.privacy
    outside = document.with_outside_the_claim(scoring.outside_the_claim if scoring else "").privacy
    loud = "notice alarm" if privacy.epsilon == "none" else "notice"
    return join(
        [
            tag("p", tag("b", f"ε = {privacy.epsilon}. "), privacy.claim, class_=loud),
            tag("p", tag("b", "Outside the claim. "), outside.outside_the_claim, class_="notice"),
        ]
    )


def claim_facts(document: RunDocument) -> Markup:
    """Parameter by parameter."""
    privacy = document.privacy
    noise = _NOISE[privacy.noise]
    return facts(
        [
            ("unit of privacy", f"{privacy.unit}; k records of one person are covered by k·ε"),
            ("what is released", _released(document)),
            ("mechanism", _mechanism(privacy)),
            ("sensitivity Δ", f"{privacy.sensitivity}, in L1 over all sums of the forest"),
            ("ε of this run", privacy.epsilon),
            ("δ", _delta(document)),
            ("who adds the noise", f"{privacy.noise}: {noise}"),
            ("honest banks assumed", _honest(privacy, len(document.parameters.banks))),
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
            expense.sensitivity,
            expense.noise,
            expense.account_file[:12],
        )
        for expense in ledger.expenses
    ]
    return table(["time", "run", "ε", "Δ", "noise", "account file"], rows)


def _amount(value: Epsilon | None) -> str:
    return "not set" if value is None else epsilon_text(value)


def _released(document: RunDocument) -> str:
    labels = f"the labels of {document.sizes.red_leaves:,} red leaves"
    if document.parameters.mode == "sealed":
        return f"{labels}, hidden in shares (sealed model)"
    return f"{labels}, known to the payment network (released model)"


def _mechanism(privacy: Privacy) -> str:
    if privacy.epsilon == "none":
        return "none"
    return "discrete Laplace noise on every sum, sampled exactly; a label is the sign of a sum"


def _delta(document: RunDocument) -> Markup:
    return join(
        ["none in the mechanism; computational, plus ", _power(document.bounds.log2_distance)]
    )


def _honest(privacy: Privacy, n_banks: int) -> str:
    if privacy.noise != "distributed":
        return "none needed"
    return f"at least {privacy.honest_banks} of {n_banks} keep their noise to themselves"


def _power(log2: float) -> Markup:
    return join(["2", tag("sup", f"{log2:.1f}".removesuffix(".0").replace("-", "−"))])
