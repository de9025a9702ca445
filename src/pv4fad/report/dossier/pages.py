"""The pages of a dossier, and the JSON behind them; written as one folder, or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pv4fad.evaluation.evaluate import JOINT
from pv4fad.files import write_folder
from pv4fad.protocol.roles import in_words
from pv4fad.report.content import Gap, ReportContent
from pv4fad.report.dossier.integrity import Integrity
from pv4fad.report.dossier.processing import (
    ROLES,
    TO_FILL_IN,
    TRAINED,
    Processing,
    processing,
)
from pv4fad.report.dossier.validation import (
    Validation,
    band_rows,
    detector_headings,
    level_rows,
    period_figures,
    period_rows,
    recall_headings,
    recall_rows,
    validation,
)
from pv4fad.report.leakage import ASSUMPTIONS
from pv4fad.report.page import page_values
from pv4fad.report.privacy import privacy_view
from pv4fad.report.render import render_page
from pv4fad.report.texts import count_text, estimate_text
from pv4fad.run.scoring_record import ScoringRecord

JSON_FILE = "dossier.json"
QUESTIONS = {
    "processing": "What is processed, and by whom?",
    "claims": "What is claimed, and what does it rest on?",
    "learned": "What has each party learned?",
    "attacks": "What does an attacker get?",
    "validation": "Does the model work?",
    "integrity": "Is this the run that it says it is?",
}
"""Page: its question."""
_SPENT = ("holder", "spent", "limit", "left", "delta_of_last_365_days", "delta_limit")


@dataclass(frozen=True)
class Dossier:
    """All that there is to say."""

    content: ReportContent
    processing: Processing
    validation: Validation
    integrity: Integrity
    made: datetime

    @classmethod
    def of(cls, content: ReportContent, integrity: Integrity, made: datetime) -> Dossier:
        return cls(content, processing(content.document), validation(content), integrity, made)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is missing, and how to get it."""
        gaps = [*self.content.gaps, *self.validation.gaps, *self.integrity.gaps]
        if self.content.attack is None:
            gaps.append(Gap("What attackers get", "nobody has tried: pv4fad attack RUN DIR"))
        return tuple(gaps)


def write_dossier(folder: Path, dossier: Dossier) -> None:
    """A new folder, for the eyes of its owner, who may pass it on."""
    write_folder(folder, dossier_files(dossier))


def dossier_files(dossier: Dossier) -> dict[str, str]:
    """Name: content."""
    data = json.dumps(numbers(dossier), indent=1, ensure_ascii=False, default=str) + "\n"
    values = _values(dossier) | {"json_digest": hashlib.sha256(data.encode()).hexdigest()}
    pages = {"index": "Dossier", **QUESTIONS}
    run_id = dossier.content.document.run_id
    return {
        f"{name}.html": render_page(
            f"dossier/{name}.html", title=f"{heading} Run {run_id}", here=name, **values
        )
        for name, heading in pages.items()
    } | {JSON_FILE: data}


def numbers(dossier: Dossier) -> dict[str, Any]:
    """What the pages say, for programs."""
    content, document = dossier.content, dossier.content.document
    words, scoring = document.data_schema.words, content.scoring
    return {
        "format": "pv4fad dossier",
        "version": 1,
        "made": dossier.made.isoformat(),
        "run_id": document.run_id,
        "gaps": [asdict(gap) for gap in dossier.gaps],
        "processing": asdict(dossier.processing)
        | {"schema": document.data_schema.model_dump(mode="json"), "to_fill_in": TO_FILL_IN},
        "claims": {
            "privacy": document.privacy.model_dump(mode="json"),
            "bounds": document.bounds.model_dump(mode="json"),
            "assumptions": [words(one) for one in ASSUMPTIONS],
        },
        "learned": {
            "scoring": None if scoring is None else scoring.model_dump(mode="json"),
            "training_messages": [flow.model_dump(mode="json") for flow in document.traffic],
        },
        "attacks": None if content.attack is None else content.attack.model_dump(mode="json"),
        "validation": dossier.validation.numbers(),
        "integrity": dossier.integrity.numbers()
        | {"ledgers": [dict(zip(_SPENT, row, strict=True)) for row in privacy_view(content).spent]},
    }


def _values(dossier: Dossier) -> dict[str, Any]:
    content, checked = dossier.content, dossier.validation
    evaluation, lines = checked.evaluation, checked.thresholds
    audit, words = dossier.integrity.audit, content.document.data_schema.words
    return page_values(content) | {
        "gaps": dossier.gaps,
        "questions": QUESTIONS,
        "answers": _answers(dossier),
        "made": dossier.made,
        "json_file": JSON_FILE,
        "details_open": True,
        "processing": dossier.processing,
        "who": [in_words(name, words) for name in dossier.processing.parties],
        "roles": ROLES,
        "to_fill_in": TO_FILL_IN,
        "recall_headings": None if evaluation is None else recall_headings(evaluation),
        "recall": None
        if evaluation is None
        else recall_rows(evaluation, detector_headings(content)),
        "periods": period_rows(checked.periods),
        "period_figures": period_figures(checked.periods) if checked.periods else [],
        "levels": None if lines is None else level_rows(lines),
        "bands": [] if lines is None else band_rows(lines),
        "integrity": dossier.integrity,
        "hashes": [
            ("schema of the data", dossier.integrity.schema_digest),
            (words("commitment of the {lead}"), dossier.integrity.commitment or "none"),
            *dossier.integrity.files.items(),
        ],
        "signers": [
            (in_words(name, words), key, f"{n:,}") for name, key, n in dossier.integrity.parties
        ],
        "faults": [
            (in_words(one.party, words), in_words(one.what, words))
            for one in (() if audit is None else audit.faults)
        ],
        "unchecked": [
            (in_words(one.party, words), in_words(one.what, words))
            for one in (() if audit is None else audit.notes)
        ],
        "exceeded": () if content.attack is None else content.attack.exceeded,
    }


def _answers(dossier: Dossier) -> dict[str, str]:
    """To each question, in a line."""
    content, document = dossier.content, dossier.content.document
    words, privacy = document.data_schema.words, document.privacy
    n_holders = len(document.parameters.banks)
    return {
        "processing": words(
            f"{{rows}} of the {{lead}}; {{records}} of {', '.join(document.parameters.banks)};"
            " legal roles are to be filled in"
        ),
        "claims": words(
            f"training: ε = {privacy.epsilon} and δ = {privacy.delta} for one {{record}}, H ="
            f" {privacy.honest_banks} of {n_holders}; questions are outside of it"
        ),
        "learned": words(_learned(content)),
        "attacks": _attacked(content),
        "validation": words(_validated(dossier.validation)),
        "integrity": _audited(dossier.integrity),
    }


def _learned(content: ReportContent) -> str:
    scoring, trained = content.scoring, TRAINED[content.document.parameters.mode]
    if scoring is None:
        return f"the {{lead}}: {trained}; of a scoring nothing is known"
    if scoring.learned is None:
        return "the {lead}: vote totals, which tell kinds of {records} apart"
    return (
        f"the {{lead}}: {trained}, and bits about {scoring.records_known:,} {{records}},"
        f" {scoring.records_positive:,} of them not ordinary; {_metered(scoring)}the others:"
        " public sizes"
    )


def _metered(scoring: ScoringRecord) -> str:
    positive = scoring.positive_answers
    if positive is None:
        return ""
    each = ", ".join(f"{name} {n:,}" for name, n in positive.items())
    return f"the aggregator: how many answers of each {{holder}} were positive ({each}); "


def _attacked(content: ReportContent) -> str:
    if content.attack is None:
        return "not tried yet"
    tested = [one for one in content.attack.findings if one.within_claim is not None]
    exceeded = len(content.attack.exceeded)
    result = "all of them hold" if not exceeded else f"DO NOT HOLD: {exceeded}"
    return (
        f"attacks: {len(content.attack.findings)}; claims put to the test: {len(tested)}, {result}"
    )


def _validated(checked: Validation) -> str:
    evaluation = checked.evaluation
    joint = None if evaluation is None else evaluation.of(JOINT)
    if evaluation is None or joint is None:
        return "not measured: see what is missing"
    text = f"average precision {estimate_text(joint.average_precision)}"
    if joint.alerts is not None:
        found = f"{count_text(joint.alerts.found)} of {evaluation.anomalies:,}"
        text += f"; {found} anomalies in {joint.alerts.alerts:,} alerts"
    return text


def _audited(integrity: Integrity) -> str:
    audit = integrity.audit
    if audit is None:
        return "hashes only: no signed log was read"
    logs = f"signed messages: {audit.n_messages:,}; logs of parties: {len(audit.parties)}"
    return f"{logs}, " + (f"FAULTS: {len(audit.faults)}" if audit.faults else "which fit together")
