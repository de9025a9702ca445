"""The demo in one table: what was found, what each party saw, what it cost, what is private."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from pv4fad.evaluation.evaluate import ALONE, JOINED, JOINT, Evaluation
from pv4fad.report.content import ReportContent
from pv4fad.report.words import estimate_text, found_text, size_text
from pv4fad.runs.meter import PhaseCost, Traffic

_HEADINGS = {ALONE: "network alone", JOINT: "with the banks", JOINED: "all data joined"}

_CAN_TELL = {
    "payment-network": "one vote total per side it scores",
    "bank": "public sizes: the values are uniform or closed",
    "aggregator": "public sizes: the values are uniform or closed",
}
"""By receiver: what it could make of what reached it."""

_EQUAL = (
    "A small federation without noise: its trees, counts, labels and votes equal those of a trusted"
    " third party, all of them."
)


def summary(content: ReportContent) -> Table:
    """For somebody who has a minute; for after a comparison with a trusted third party."""
    table = Table(show_header=False, show_lines=True, title="In short")
    if content.evaluation is not None:
        table.add_row("found", _found(content.evaluation))
    else:
        gaps = "; ".join(f"{gap.what}: {gap.why}" for gap in content.gaps)
        table.add_row("found", escape(gaps))
    table.add_row("seen", _seen(content))
    table.add_row("cost", _cost(content))
    table.add_row("right", _EQUAL)
    privacy = content.document.privacy
    table.add_row(
        "private",
        escape(
            f"ε = {privacy.epsilon} for training, for {privacy.unit}. Outside of it: what votes"
            " tell the payment network about accounts that it scores."
        ),
    )
    return table


def _found(evaluation: Evaluation) -> Table:
    table = _plain("looked at", *(_HEADINGS[one.name] for one in evaluation.detectors))
    for number, at in enumerate(evaluation.detectors[0].budgets):
        found = (
            found_text(one.budgets[number], evaluation.anomalies) for one in evaluation.detectors
        )
        table.add_row(f"{at.alerts:,} of {evaluation.transactions:,}", *found)
    estimates = (estimate_text(one.average_precision) for one in evaluation.detectors)
    table.add_row("avg precision", *estimates)
    return table


def _seen(content: ReportContent) -> Table:
    traffic: list[Traffic] = [*content.document.traffic]
    traffic += content.scoring.traffic if content.scoring else ()
    table = _plain("party", "received", "and could tell from it")
    for receiver, can_tell in _CAN_TELL.items():
        size = sum(one.bytes for one in traffic if one.receiver == receiver)
        name = "each bank" if receiver == "bank" else receiver.replace("-", " ")
        n_receivers = len(content.document.parameters.banks) if receiver == "bank" else 1
        table.add_row(name, size_text(size // n_receivers), can_tell)
    return table


def _cost(content: ReportContent) -> Table:
    table = _plain("", "seconds", "messages", "bytes")
    costs: dict[str, tuple[PhaseCost, ...]] = {"training": content.document.phases}
    if content.scoring is not None:
        costs["scoring"] = content.scoring.phases
    for name, phases in costs.items():
        table.add_row(
            name,
            f"{sum(one.seconds for one in phases):.0f}",
            f"{sum(one.messages for one in phases):,}",
            size_text(sum(one.bytes for one in phases)),
        )
    return table


def _plain(*headings: str) -> Table:
    return Table(*headings, box=None, pad_edge=False, padding=(0, 1, 0, 0))
