"""The demo in one table: what was found, what each party saw, what it cost, what is private."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from pv4fad.evaluation.evaluate import ALONE, JOINED, JOINT, Evaluation
from pv4fad.privacy.epsilon import upper_text
from pv4fad.report.content import ReportContent
from pv4fad.report.texts import estimate_text, found_text, size_text
from pv4fad.run.meter import PhaseCost, Traffic

_HEADINGS = {ALONE: "network alone", JOINT: "with the banks", JOINED: "all data joined"}

_NOTHING = "public sizes: the values are uniform or closed"
_EQUAL = (
    "A small federation without noise: its counts, bits, alerts and scores equal those of a trusted"
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
    table.add_row("private", escape(_private(content)))
    return table


def _private(content: ReportContent) -> str:
    privacy, scoring = content.document.privacy, content.scoring
    n_banks, alone = len(content.document.parameters.banks), privacy.effective_epsilon
    parts = [
        f"ε = {privacy.epsilon} (δ = {privacy.delta}) for training, for {privacy.unit}, if"
        f" {privacy.honest_banks} of {n_banks} banks are honest"
    ]
    if alone is not None:
        parts.append(f"; {upper_text(alone, 2)} if only one is.")
    if scoring is not None and scoring.learned is not None:
        learned = scoring.learned
        parts.append(
            f" Outside of it, scoring: asked about {learned.records_asked:,} of"
            f" {learned.records:,} accounts, {scoring.records_positive:,} of them not ordinary."
        )
    return "".join(parts)


def _found(evaluation: Evaluation) -> Table:
    table = _plain("looked at", *(_HEADINGS[detector.name] for detector in evaluation.detectors))
    budgets = [detector.budgets for detector in evaluation.detectors]
    rows = [(f"highest {at[0].alerts:,}", at) for at in zip(*budgets, strict=True)]
    alerts = [found.alerts for found in evaluation.detectors if found.alerts is not None]
    if alerts:
        rows.append((f"its {alerts[0].alerts:,} alerts", tuple(alerts)))
    for name, found in rows:
        table.add_row(name, *(found_text(at, evaluation.anomalies) for at in found))
    estimates = (estimate_text(found.average_precision) for found in evaluation.detectors)
    table.add_row("avg precision", *estimates)
    return table


def _seen(content: ReportContent) -> Table:
    scoring = content.scoring
    traffic: list[Traffic] = [*content.document.traffic]
    traffic += scoring.traffic if scoring else ()
    known = 0 if scoring is None else scoring.records_known
    table = _plain("party", "received", "and could tell from it")
    for receiver, can_tell in (
        ("payment-network", f"noisy counts; one bit about {known:,} accounts"),
        ("bank", _NOTHING),
        ("aggregator", _NOTHING),
    ):
        size = sum(flow.bytes for flow in traffic if flow.receiver == receiver)
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
            f"{sum(cost.seconds for cost in phases):.0f}",
            f"{sum(cost.messages for cost in phases):,}",
            size_text(sum(cost.bytes for cost in phases)),
        )
    return table


def _plain(*headings: str) -> Table:
    return Table(*headings, box=None, pad_edge=False, padding=(0, 1, 0, 0))
