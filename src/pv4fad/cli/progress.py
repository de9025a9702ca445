"""What commands print of a run: how far it is, what it costs, what scoring told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table

from pv4fad.cli.console import err
from pv4fad.report.texts import size_text
from pv4fad.run.meter import PREPARE, PhaseCost, Progress, Report
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.words import Words

VOTES_TELL = (
    "The {lead} got a vote total for each side of every {row}.  Vote totals tell kinds of {records}"
    " apart: it can now know the kind of most {records} that it scored."
)


@contextmanager
def phase_display(phases: Sequence[str]) -> Iterator[Report]:
    """Shows every phase with messages, bytes and seconds, on standard error.

    Bars in a terminal, a line per phase elsewhere.
    """
    if not err.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    with Bars(*columns, console=err) as bars:
        yield _BarsOfPhases(bars, phases)


class _Lines:
    """One line when a phase is done; phases of several holders overlap."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def __call__(self, progress: Progress) -> None:
        phase = progress.cost.phase
        if phase not in self._printed and progress.is_over:
            self._printed.add(phase)
            err.print(f"{phase:<8} {cost_text(progress)}", markup=False, soft_wrap=True)


class _BarsOfPhases:
    def __init__(self, bars: Bars, phases: Sequence[str]) -> None:
        self._bars = bars
        self._tasks = {phase: self._add(phase) for phase in phases}

    def __call__(self, progress: Progress) -> None:
        phase, done, total = progress.cost.phase, progress.done, progress.total
        if phase not in self._tasks:  # left over from an interrupted command
            self._tasks[phase] = self._add(phase)
        self._bars.start_task(self._tasks[phase])
        if phase == PREPARE:
            done = total = 1
        self._bars.update(self._tasks[phase], completed=done, total=total, cost=cost_text(progress))

    def _add(self, phase: str) -> TaskID:
        return self._bars.add_task(phase, total=None, start=phase == PREPARE, cost="")


def cost_text(progress: Progress) -> str:
    """Messages, bytes and seconds so far."""
    cost = progress.cost
    if not progress.total:
        return f"{cost.seconds:.1f} s"
    messages = f"{progress.done} of {progress.total} messages"
    return f"{messages}, {size_text(cost.bytes)}, {cost.seconds:.1f} s"


def cost_table(phases: Sequence[PhaseCost]) -> Table:
    """Seconds, messages and bytes of each phase, and of all together."""
    table = Table("phase", "seconds", "messages", "bytes")
    for cost in phases:
        size = size_text(cost.bytes) if cost.messages else ""
        table.add_row(cost.phase, f"{cost.seconds:.1f}", str(cost.messages or ""), size)
    seconds = sum(cost.seconds for cost in phases)
    messages = sum(cost.messages for cost in phases)
    size = size_text(sum(cost.bytes for cost in phases))
    table.add_section()
    table.add_row("all", f"{seconds:.1f}", str(messages), size)
    return table


def learned_lines(record: ScoringRecord, words: Words) -> list[str]:
    """What a scoring told the lead about the holders' records, a sentence per line."""
    learned = record.learned
    if learned is None:
        return [words(VOTES_TELL)]
    sentences = (
        f"Asked about {learned.rows_asked:,} of {learned.rows:,} {{rows}}:"
        f" {learned.records_asked:,} of {learned.records:,} {{records}}.",
        f"{learned.alerts:,} alerts, {learned.holder_alerts:,} of them made or raised by the answer"
        " of {a_holder}.",
        f"The {{lead}} now knows a bit about {record.records_known:,} {{records}}; not ordinary"
        f" among them: {record.records_positive:,}.",
    )
    return [words(sentence) for sentence in sentences]
