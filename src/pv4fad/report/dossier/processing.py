"""What is processed, by whom, where it is kept and for how long: from run.json and its schema."""

from __future__ import annotations

from dataclasses import dataclass

from pv4fad.protocol.parameters import Mode
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.report.page import MODELS
from pv4fad.run.document import RunDocument
from pv4fad.schema import Schema

Rows = list[list[str]]

TO_FILL_IN = (
    "purpose of the processing",
    "legal basis",
    "categories of persons whose data are processed",
    "recipients of alerts",
    "transfers to other countries",
    "impact assessment (reference, date)",
    "agreement between the parties (reference, date)",
    "supervisory authority, and when it was informed",
    "review by people before a decision has an effect on a person",
    "next review of model and threshold",
)
"""What no program can know."""

ROLES = ("controller, joint controller or processor", "legal basis", "contact, data protection")
"""To be filled in for each party."""


@dataclass(frozen=True)
class Processing:
    """The tables of the page; cells are text."""

    facts: Rows
    data: Rows
    """Whose, what, columns, what leaves the party."""
    holders: Rows
    """Name, at most how many records."""
    kept: Rows
    """Where, what, until when."""
    parties: tuple[str, ...]


def processing(document: RunDocument) -> Processing:
    """Of a run."""
    schema, parameters = document.data_schema, document.parameters
    words = schema.words
    end = "not finished" if document.finished is None else f"{document.finished:%Y-%m-%d %H:%M} UTC"
    return Processing(
        facts=[
            ["begun", f"{document.begun:%Y-%m-%d %H:%M} UTC"],
            ["finished", end],
            ["data", schema.name],
            ["model", MODELS[parameters.mode]],
            ["metered questions", "yes" if parameters.metered else "no"],
        ],
        data=_data(schema, parameters.mode, metered=parameters.metered),
        holders=[[name, f"{most:,}"] for name, most in parameters.banks.items()],
        kept=[
            [words(cell) for cell in row]
            for row in _kept(parameters.mode, metered=parameters.metered)
        ],
        parties=(PAYMENT_NETWORK, *parameters.banks, AGGREGATOR),
    )


def _data(schema: Schema, mode: Mode, *, metered: bool) -> Rows:
    rows, record, words = schema.rows, schema.record, schema.words
    numbers = [*rows.numbers, *rows.categories]
    features = ", ".join(numbers) if numbers else ""
    if rows.features is not None:
        features += ("; " if features else "") + f"computed by {rows.features}"
    if rows.history:
        features += ("; " if features else "") + "counts of what happened before"
    sides = [
        [
            words("{lead}"),
            words(f"side {name}: of whom {{a_holder}} may have a record"),
            _columns(side.id, side.holder),
            "encrypted under its own key, at a padded size",
        ]
        for name, side in schema.sides.items()
    ]
    decided = f"; {len(record.rules)} rules decide it" if record.rules else ""
    return [
        [words("{lead}"), words("{rows}"), _columns(rows.id, rows.time, rows.event), "nothing"],
        [words("{lead}"), "features", features, "nothing"],
        [words("{lead}"), "labels: anomaly or not", rows.label, "nothing"],
        *sides,
        [
            words("each {holder}"),
            words("{records}"),
            _columns(record.id, record.holder, record.namespace),
            "nothing",
        ],
        [
            words("each {holder}"),
            words(f"class of {{a_record}}{decided}"),
            ", ".join(record.classes),
            _FROM_CLASSES[mode],
        ],
        ["aggregator", "no data", "", _FROM_AGGREGATOR + (words(_METERED) if metered else "")],
    ]


def _columns(*names: str | None) -> str:
    return ", ".join(name for name in names if name is not None)


_FROM_CLASSES: dict[Mode, str] = {
    "counts": "noisy counts, in shares; one bit for each question, in shares",
    "released": "noisy counts, in shares of which the labels of leaves are opened and nothing else;"
    " one bit for each question, in shares",
    "sealed": "noisy counts, in shares of which nothing is opened; a vote for each side, in shares",
}
_FROM_AGGREGATOR = "sums of what it gets, in shares that it cannot open"
_METERED = (
    "; answers of {holders}, in an order that it does not know: it opens them, and counts the"
    " positive ones"
)
TRAINED: dict[Mode, str] = {
    "counts": "noisy counts",
    "released": "noisy labels of leaves",
    "sealed": "shares of labels, which say nothing",
}
"""What the lead has after training."""


_OWN_SYSTEMS = "its own systems; a run saved from Python also has what it needs, in its store"


def _kept(mode: Mode, *, metered: bool) -> Rows:
    """Stores are sealed (docs/operate/stores.md); with places for the words of a schema."""
    own = f"{TRAINED[mode]}, local model" if mode == "counts" else TRAINED[mode]
    if mode == "sealed":
        answers = ["answers to questions: sums of votes", "until the scoring is over"]
    else:
        answers = ["answers to questions: bits", "until all {records} are matched again"]
    counted = ["aggregator", "positive answers of each {holder} on the last day", "permanent"]
    return [
        ["{lead}", "its {rows}, labels and features", _OWN_SYSTEMS],
        ["{lead}", f"keys, shares, {own}, seed", "with the run, in its store"],
        ["{lead}", *answers],
        ["{lead}", "alerts and scores (predictions)", "until it deletes the file"],
        ["each {holder}", "its {records}", _OWN_SYSTEMS],
        ["each {holder}", "keys, shares", "with the run, in its store"],
        ["each {holder}", "ledger of the privacy loss", "permanent: it is what limits later runs"],
        ["aggregator", "keys, sums that it cannot open", "with the run, in its store"],
        *([counted] if metered else []),
        ["every party", "log of signed messages: digests, no content", "as long as its store"],
    ]
