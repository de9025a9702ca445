"""The report: what `templates/report.html` says about a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.attack.findings import Attack
from pv4fad.evaluation.evaluate import ALONE, HEADINGS, JOINED, JOINT, Evaluation
from pv4fad.evaluation.scored import LOCAL_SCORE, SCORE
from pv4fad.files import write_whole
from pv4fad.protocol.parameters import Mode
from pv4fad.report.canvas import Figure
from pv4fad.report.charts import cost_figures, precision_recall
from pv4fad.report.content import ID, TRUTH, ReportContent
from pv4fad.report.leakage import (
    ASSUMPTIONS,
    LAYERS,
    LEARNS,
    NOTHING_UNIFORM,
    RELEASED_LABELS,
    VOTE_TOTAL,
    parties,
    together,
)
from pv4fad.report.privacy import Row, privacy_view
from pv4fad.report.render import render_page
from pv4fad.report.texts import (
    count_text,
    estimate_text,
    flow_text,
    found_text,
    kind_text,
    size_text,
)
from pv4fad.run.document import RunDocument
from pv4fad.words import Words

MODELS = {
    "counts": "evidence from noisy counts; scoring by decisions",
    "released": "the paper's forest, labels released; scoring by decisions",
    "sealed": "the paper's forest, labels sealed; scoring by votes",
}
_ALERT_COLUMNS = {
    "id": ID,
    "level": "Level",
    "score": SCORE,
    "alone": LOCAL_SCORE,
    "in truth": TRUTH,
    "payment": "SettlementAmount",
    "reasons": "Reasons",
    "unusual about it": "Unusual",
}
"""Heading: the column that it needs."""


@dataclass(frozen=True)
class Card:
    """A number at the top of the page."""

    name: str
    value: str
    small: str


@dataclass(frozen=True)
class Measures:
    """What alerts find, with each detector."""

    headings: list[str]
    rows: list[list[str]]
    curves: Figure


@dataclass(frozen=True)
class Alerts:
    """The highest alerts; columns that are not known of any of them are left out."""

    columns: list[str]
    rows: list[dict[str, Any]] = field(repr=False)
    labelled: bool


def page(content: ReportContent) -> str:
    """The whole file."""
    title = f"PV4FAD report: run {content.document.run_id}"
    return render_page("report.html", title=title, details_open=False, **page_values(content))


def page_values(content: ReportContent) -> dict[str, Any]:
    """What the templates of a report need; those of a dossier use some of them."""
    document, mode = content.document, content.document.parameters.mode
    words, n_holders = document.data_schema.words, len(document.parameters.banks)
    metered, scoring = document.parameters.metered, content.scoring
    positive = None if scoring is None else scoring.positive_answers
    return {
        "document": document,
        "all_holders": (
            f"one {words.holder}" if n_holders == 1 else words(f"{n_holders} {{holders}}")
        ),
        "cards": _cards(content),
        "gaps": content.gaps,
        "scored": content.predictions is not None,
        "evaluation": content.evaluation,
        "measures": None if content.evaluation is None else _measures(content.evaluation, words),
        "alerts": None if content.alerts is None else _alerts(content.alerts),
        "scoring": content.scoring,
        "ledgers": content.ledgers,
        "privacy": privacy_view(content),
        "assumptions": [words(assumption) for assumption in ASSUMPTIONS],
        "parties": [[words(text) for text in row] for row in parties(mode, metered=metered)],
        "together": [[words(text) for text in row] for row in together(metered=metered)],
        "positive_answers": [(name, f"{n:,}") for name, n in (positive or {}).items()],
        "messages": _messages(content, mode),
        "attacks": None if content.attack is None else _attacks(content.attack, words),
        "cost_figures": cost_figures(content),
        "run_facts": _run_facts(content),
        "words": words.forms,
    }


def write_page(path: Path, content: ReportContent) -> None:
    """A new file.  Alerts follow from records: only the owner can read it, and may pass it on."""
    write_whole(path, page(content), private=True)


def _cards(content: ReportContent) -> list[Card]:
    document, scoring = content.document, content.scoring
    words = document.data_schema.words
    per_record = words("per {record}")
    cards = [Card("privacy loss of training", f"ε = {document.privacy.epsilon}", per_record)]
    if scoring is not None and scoring.learned is not None:
        known, positive = f"{scoring.records_known:,}", f"{scoring.records_positive:,}"
        small = f"of {scoring.learned.records:,}; {positive} not ordinary"
        cards.append(Card(words("{records} with a known bit"), known, small))
    elif scoring is not None:
        cards.append(Card(words("votes for every {row}"), "tell kinds", "outside the claim"))
    evaluation = content.evaluation
    if evaluation is not None:
        joint, alone = evaluation.of(JOINT), evaluation.of(ALONE)
        for detector, name in ((joint, "found with the {holders}"), (alone, "{lead} alone")):
            if detector is not None:
                at = detector.alerts or detector.budgets[1]
                found = f"{count_text(at.found)} of {evaluation.anomalies:,}"
                cards.append(Card(words(name), found, f"in {at.alerts:,} alerts"))
    phases = [*document.phases, *(scoring.phases if scoring else ())]
    seconds, n_bytes = sum(cost.seconds for cost in phases), sum(cost.bytes for cost in phases)
    cards += [
        Card("time", f"{seconds:,.0f} s", "on this machine"),
        Card("traffic", size_text(n_bytes), "between all parties"),
    ]
    return cards


def _measures(evaluation: Evaluation, words: Words) -> Measures:
    detectors, anomalies = evaluation.detectors, evaluation.anomalies
    precisions = (estimate_text(detector.average_precision) for detector in detectors)
    rows = [["average precision (95 % interval)", *precisions]]
    if evaluation.of(JOINED) is not None:
        shares = (evaluation.gap_closed(detector) for detector in detectors)
        rows.append(["gap closed", *("-" if share is None else f"{share:.2f}" for share in shares)])
    for name, found in evaluation.rows():
        texts = (f"{found_text(at, anomalies)}, precision {at.precision:.2f}" for at in found)
        rows.append([f"found in {name}", *texts])
    headings = ["", *(words(HEADINGS[detector.name]) for detector in detectors)]
    return Measures(headings, rows, precision_recall(detectors, words))


def _alerts(alerts: pl.DataFrame) -> Alerts:
    known = [
        column.name
        for column in alerts
        if column.dtype != pl.String or column.fill_null("").ne("").any()
    ]
    columns = [heading for heading, needed in _ALERT_COLUMNS.items() if needed in known]
    return Alerts(columns, alerts.rows(named=True), TRUTH in alerts.columns)


def _messages(content: ReportContent, mode: Mode) -> list[Row]:
    words = content.document.data_schema.words
    scoring = content.scoring.traffic if content.scoring else ()
    traffic = [
        *(("training", flow) for flow in content.document.traffic),
        *(("scoring", flow) for flow in scoring),
    ]
    return [
        (
            during,
            kind_text(flow.kind, words),
            flow_text(flow, words),
            f"{flow.messages:,}",
            size_text(flow.bytes),
            words(_learned(flow.kind, flow.receiver, mode)),
        )
        for during, flow in traffic
    ]


def _learned(kind: str, receiver: str, mode: Mode) -> str:
    if kind == "label-masks" and receiver == "payment-network":
        return RELEASED_LABELS
    if kind == "score-reply" and receiver == "aggregator":
        return NOTHING_UNIFORM
    if kind == "score-query" and mode == "sealed":
        return LAYERS
    if kind == "score-reply" and mode == "sealed":
        return VOTE_TOTAL
    return LEARNS.get(kind, "see the protocol")


def _attacks(attack: Attack, words: Words) -> list[Row]:
    return [
        (
            words(one.who),
            words.of_file(one.target),
            one.measure + (f"; {words.of_file(one.note)}" if one.note else ""),
            f"{one.found:.3f}",
            "-" if one.guess is None else f"{one.guess:.3f}",
            "-" if one.allowed is None else f"{one.allowed:.6g}",
            f"{one.n:,}",
        )
        for one in attack.findings
    ]


def _run_facts(content: ReportContent) -> list[tuple[str, str]]:
    document, scoring = content.document, content.scoring
    sizes, parameters, words = document.sizes, document.parameters, document.data_schema.words
    share = None if scoring is None else scoring.alert_share
    holders = (words(f"{one} (at most {n:,} {{records}})") for one, n in parameters.banks.items())
    return [
        ("run id", document.run_id),
        ("state", document.state),
        (words.forms["holders"], ", ".join(holders)),
        ("model", MODELS[parameters.mode]),
        ("sums", _sums(document)),
        ("alerts, expected", "-" if share is None else words(f"{share * 100:g} % of the {{rows}}")),
        ("plaintext modulus", f"{sizes.plain_modulus:,}"),
        ("blocks", ", ".join(f"{table}: {n}" for table, n in sizes.blocks.items())),
    ]


def _sums(document: RunDocument) -> str:
    sizes = document.sizes
    if sizes.red_leaves is None:
        sets = document.parameters.counted
        return f"{sizes.sums:,}: {sizes.groups} cells, {sets} sets of classes in each"
    return f"{sizes.sums:,}: {sizes.trees} trees with {sizes.red_leaves:,} red leaves"
