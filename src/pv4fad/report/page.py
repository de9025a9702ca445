"""The report: what a self-contained HTML file (`html_file`) says about a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pv4fad.evaluation.evaluate import ALONE, JOINT
from pv4fad.files import write_whole
from pv4fad.payments.schema import LABEL
from pv4fad.protocol.parameters import Mode
from pv4fad.report.canvas import Figure
from pv4fad.report.charts import precision_recall
from pv4fad.report.content import ReportContent
from pv4fad.report.costs import cost_figures
from pv4fad.report.found import alerts_table, measures_table
from pv4fad.report.html_file import html_file
from pv4fad.report.leakage import (
    LEARNS,
    NOTHING_UNIFORM,
    RELEASED_LABELS,
    TOGETHER,
    VOTE_TOTAL,
    parties,
)
from pv4fad.report.markup import Content, Markup, join, tag
from pv4fad.report.privacy import (
    bounds_table,
    claim,
    claim_facts,
    epsilon_table,
    learned_table,
    ledgers,
    trust,
)
from pv4fad.report.tables import facts, table
from pv4fad.report.words import count_text, size_text
from pv4fad.run.document import RunDocument

_SECTIONS = {
    "found": "What was found",
    "privacy": "What is private",
    "seen": "Who saw what",
    "costs": "What it cost",
    "run": "The run",
}
WHOSE = (
    "All of them ran on one machine here, so this page can put together what in a real federation"
    " different parties hold; each section says whose it is."
)
HOW_SURE = (
    "Intervals are a bootstrap over the transactions of this test period. They say nothing about"
    " another draw of the noise, or about other data. Where an alert budget ends among equal"
    " scores, the expectation over a random choice among them is counted."
)
ALERTS = (
    "Reasons are in terms of the payment network's own data, and whether the bank's record decided;"
    " they never say what the record is. Unusual are values of its own features that few payments"
    " of the period reach or pass (their share)."
)


def page(content: ReportContent) -> str:
    """The whole file."""
    sections = {
        "found": _found(content),
        "privacy": _privacy(content),
        "seen": _seen(content),
        "costs": _costs(content),
        "run": _run(content),
    }
    return html_file(
        f"PV4FAD report: run {content.document.run_id}",
        _header(content),
        tag(
            "main",
            *(
                tag("section", tag("h2", _SECTIONS[name]), inner, id=name)
                for name, inner in sections.items()
            ),
        ),
        tag("footer", f"Written by pv4fad {content.document.program}. One file, no scripts."),
    )


def write_page(path: Path, content: ReportContent) -> None:
    """A new file.  Alerts follow from flags: for the eyes of the owner, who may pass it on."""
    write_whole(path, page(content), private=True)


def _header(content: ReportContent) -> Markup:
    document = content.document
    gaps = (tag("li", tag("b", f"{gap.what}: "), gap.why) for gap in content.gaps)
    missing = join([tag("p", "Not in this report:"), tag("ul", *gaps)]) if content.gaps else None
    return tag(
        "header",
        tag("h1", "Private detection of anomalous payments"),
        tag(
            "p",
            f"Run {document.run_id}, begun {document.begun:%Y-%m-%d %H:%M} UTC: a payment network,"
            f" {_banks(document)} and an aggregator, none of which showed its data to another.",
            class_="soft",
        ),
        tag("p", WHOSE, class_="soft"),
        tag("dl", *_cards(content), class_="cards"),
        tag("nav", *(tag("a", name, href=f"#{key}") for key, name in _SECTIONS.items())),
        tag("div", missing, class_="notice") if missing else None,
    )


def _cards(content: ReportContent) -> list[Markup]:
    document, scoring = content.document, content.scoring
    cards = [_card("privacy loss of training", f"ε = {document.privacy.epsilon}", "per account")]
    if scoring is not None and scoring.learned is not None:
        known, positive = f"{scoring.accounts_known:,}", f"{scoring.accounts_positive:,}"
        small = f"of {scoring.learned.accounts:,}; {positive} not ordinary"
        cards.append(_card("accounts with a known bit", known, small))
    elif scoring is not None:
        cards.append(_card("votes for every payment", "tell flags", "outside the claim"))
    evaluation = content.evaluation
    if evaluation is not None:
        joint, alone = evaluation.of(JOINT), evaluation.of(ALONE)
        for one, name in ((joint, "found with the banks"), (alone, "payment network alone")):
            if one is not None:
                at = one.alerts or one.budgets[1]
                found = f"{count_text(at.found)} of {evaluation.anomalies:,}"
                cards.append(_card(name, found, f"in {at.alerts:,} alerts"))
    phases = [*document.phases, *(scoring.phases if scoring else ())]
    cards += [
        _card("time", f"{sum(one.seconds for one in phases):,.0f} s", "on this machine"),
        _card("traffic", size_text(sum(one.bytes for one in phases)), "between all parties"),
    ]
    return cards


def _card(name: str, value: str, small: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", small)), class_="card")


def _found(content: ReportContent) -> Markup:
    parts: list[Content] = [_whose("what the payment network has; no bank sees any of it")]
    evaluation, alerts = content.evaluation, content.alerts
    if evaluation is not None:
        said = (
            f"{evaluation.anomalies:,} of {evaluation.transactions:,} transactions of the test"
            " period are anomalous. Their labels were used for this comparison only."
        )
        parts += [tag("p", said), measures_table(evaluation), tag("p", HOW_SURE, class_="soft")]
        parts.append(_figures([precision_recall(evaluation.detectors)], {_CURVE: _DOTS}))
    if content.predictions is None:
        parts.append(tag("p", "Nothing was scored yet.", class_="notice"))
    elif alerts is not None:
        parts.append(_alerts(alerts))
    return join(parts)


def _alerts(alerts: pl.DataFrame) -> Markup:
    if not alerts.height:
        return tag("p", "No payment became an alert.", class_="notice")
    return join(
        [
            tag("h3", f"The {alerts.height} highest alerts"),
            tag("p", ALERTS, class_="soft"),
            alerts_table(alerts),
            None
            if LABEL in alerts.columns
            else tag("p", "There are no labels to compare with.", class_="soft"),
        ]
    )


_CURVE = "precision-recall"
_DOTS = "Dots: what the alert budgets 0.05, 0.1 and 0.2 % of all transactions find."


def _privacy(content: ReportContent) -> Markup:
    document = content.document
    kept = content.ledgers
    shown = ledgers(kept) if kept else tag("p", "Sealed: not read.", class_="notice")
    return join(
        [
            _whose(
                "public: every party of the run has it; what scoring told is the payment network's"
                " own, a ledger its bank's"
            ),
            claim(document),
            tag("h3", "What ε means"),
            epsilon_table(document.privacy, len(document.parameters.banks)),
            tag("h3", "What scoring told the payment network"),
            learned_table(content.scoring),
            tag("h3", "The claim, item by item"),
            claim_facts(document),
            tag("h3", "What each bank has spent"),
            shown,
            tag("h3", "What it rests on"),
            trust(),
            tag("h3", "Bounds"),
            bounds_table(document.bounds),
        ]
    )


def _seen(content: ReportContent) -> Markup:
    mode = content.document.parameters.mode
    traffic = [*content.document.traffic, *(content.scoring.traffic if content.scoring else ())]
    messages = [
        (
            one.kind,
            f"{_role(one.sender)} → {_role(one.receiver)}",
            f"{one.messages:,}",
            size_text(one.bytes),
            _learned(one.kind, one.receiver, mode),
        )
        for one in traffic
    ]
    return join(
        [
            _whose("public: follows from the protocol, whatever the data"),
            table(["party", "learns, beyond its own data", "does not learn"], parties(mode)),
            tag("h3", "If parties put together what they have"),
            table(["together", "they learn"], TOGETHER),
            tag("h3", "Message by message"),
            table(
                ["message", "from → to", "number", "size", "the receiver learns"],
                messages,
                numbers=[2, 3],
            ),
        ]
    )


def _learned(kind: str, receiver: str, mode: Mode) -> str:
    if kind == "label-masks" and receiver == "payment-network":
        return RELEASED_LABELS
    if kind == "score-reply" and receiver == "aggregator":
        return NOTHING_UNIFORM
    if kind == "score-reply" and mode == "sealed":
        return VOTE_TOTAL
    return LEARNS.get(kind, "see the protocol")


def _costs(content: ReportContent) -> Markup:
    captions = dict.fromkeys(("training", "scoring"), _OVERLAP)
    return join(
        [
            _whose("public; all parties on one machine, so nothing travelled over a network"),
            _figures(cost_figures(content), captions),
        ]
    )


_OVERLAP = "Shown one after the other; in truth phases of several banks overlap."


def _run(content: ReportContent) -> Markup:
    document, scoring = content.document, content.scoring
    sizes, parameters = document.sizes, document.parameters
    share = None if scoring is None else scoring.alert_share
    shown: list[tuple[str, Content]] = [
        ("run id", document.run_id),
        ("state", document.state),
        (
            "banks",
            ", ".join(f"{bank} (at most {n:,} accounts)" for bank, n in parameters.banks.items()),
        ),
        ("model", _MODELS[parameters.mode]),
        ("sums", _sums(document)),
        ("alerts, expected", "-" if share is None else f"{share * 100:g} % of the payments"),
        ("plaintext modulus", f"{sizes.plain_modulus:,}"),
        ("blocks", ", ".join(f"{table_}: {n}" for table_, n in sizes.blocks.items())),
        ("commitment to what was counted", tag("code", document.structure_commitment)),
        ("program", f"pv4fad {document.program}"),
    ]
    return join([_whose("public: run.json"), facts(shown)])


_MODELS = {
    "counts": "evidence from noisy counts; scoring by decisions",
    "released": "the paper's forest, labels released; scoring by decisions",
    "sealed": "the paper's forest, labels sealed; scoring by votes",
}


def _sums(document: RunDocument) -> str:
    sizes = document.sizes
    if sizes.red_leaves is None:
        sets = document.parameters.counted
        return f"{sizes.sums:,}: {sizes.groups} cells, {sets} sets of classes in each"
    return f"{sizes.sums:,}: {sizes.trees} trees with {sizes.red_leaves:,} red leaves"


def _figures(figures: list[Figure], captions: dict[str, str]) -> Markup:
    drawn = (
        tag(
            "figure",
            tag("h3", one.title),
            one.svg(),
            tag("figcaption", captions[one.name]) if one.name in captions else None,
            id=f"figure-{one.name}",
        )
        for one in figures
    )
    return tag("div", *drawn, class_="figures")


def _whose(words: str) -> Markup:
    return tag("p", words, class_="whose")


def _banks(document: RunDocument) -> str:
    n = len(document.parameters.banks)
    return "one bank" if n == 1 else f"{n} banks"


def _role(party: str) -> str:
    return party.replace("-", " ")
