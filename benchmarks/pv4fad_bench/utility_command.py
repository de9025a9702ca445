"""`pv4fad bench utility`: detection quality of the private model, between two bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress as Bars

from pv4fad.cli.console import err, out, progress_bar
from pv4fad.evaluation.measures import ALERT_BUDGETS, Interval
from pv4fad.files import require_writable
from pv4fad.payments.generate import MIN_TRANSACTIONS, Difficulty
from pv4fad.payments.generate.calibration import ANOMALY_RATE, PERIOD_DAYS, TRAINING_DAYS
from pv4fad_bench.prepared import BANKS, Setting
from pv4fad_bench.utility import (
    ALONE,
    DRAWS,
    HALF,
    JOINED,
    SeedResults,
    StudyFile,
    interval_over_seeds,
    n_steps,
    study_seed,
)

_FEW_ANOMALIES = 50
_SECONDS_PER_SEED, _SECONDS_PER_MILLION = 30, 300  # of one core


def command(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many data sets per difficulty.")] = 8,
    first_seed: Annotated[int, typer.Option(min=0, help="Seed of the first data set.")] = 11,
    transactions: Annotated[
        int, typer.Option(min=MIN_TRANSACTIONS, help="In each data set.")
    ] = 1_000_000,
    difficulty: Annotated[str, typer.Option(help="challenge, hard, or both.")] = "both",
    prepared: Annotated[
        Path | None,
        typer.Option(
            help="Folder for what is prepared of each data set; what is there is not done again.",
            file_okay=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Keep all figures in this file; seeds that are in it are not studied again.",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Average precision of private counts and answers, between the payment network alone and
    joined data, and what the payment network learns about accounts.

    In the clear, with the code of private runs, on generated data.
    """
    names = [one.value for one in Difficulty]
    if difficulty not in (*names, "both"):
        raise typer.BadParameter(f"there are {', '.join(names)} and both")
    wanted = [Difficulty(name) for name in names if difficulty in (name, "both")]
    require_writable(json_file)
    file = StudyFile(json_file, transactions)
    chosen = range(first_seed, first_seed + seeds)
    left = [(one, seed) for seed in chosen for one in wanted if seed not in file.finished(one)]
    expected = len(left) * (_SECONDS_PER_SEED + _SECONDS_PER_MILLION * transactions / 1e6)
    if left:
        err.print(f"This will take about {max(1, round(expected / 60))} minutes.")
    anomalies = transactions * ANOMALY_RATE * (1 - TRAINING_DAYS / PERIOD_DAYS)
    if anomalies < _FEW_ANOMALIES:
        err.print(
            f"A test period will have about {max(1, round(anomalies))} anomalies: too few to tell"
            " how good anything is; 1,000,000 transactions have more.",
            soft_wrap=True,
        )
    started = time.monotonic()
    with progress_bar() as bars:
        for number, (one, seed) in enumerate(left):
            _study(file, Setting(transactions, one), seed, prepared, bars)
            pace = (time.monotonic() - started) / (number + 1)
            minutes = round(pace * (len(left) - number - 1) / 60)
            bars.console.print(f"{number + 1} of {len(left)}; about {minutes} minutes left")
    for one in wanted:
        finished = file.finished(one)
        _print(one, transactions, {seed: finished[seed] for seed in chosen})


def _study(file: StudyFile, setting: Setting, seed: int, prepared: Path | None, bars: Bars) -> None:
    title = f"{setting.difficulty.value}, seed {seed}"
    task = bars.add_task(title, total=n_steps())

    def tell(step: str) -> None:
        bars.update(task, advance=1, description=f"{title}: {step}")

    file.add(setting.difficulty, seed, study_seed(setting, seed, prepared, tell))
    bars.update(task, completed=n_steps(), description=title)


def _print(difficulty: Difficulty, transactions: int, results: Mapping[int, SeedResults]) -> None:
    seeds = ", ".join(str(seed) for seed in results)
    over_seeds = " mean and 95 % interval over seeds;" if len(results) > 1 else ""
    out.print(
        f"{difficulty.value}: {transactions:,} transactions, {BANKS} banks, seeds {seeds};"
        f"{over_seeds} mean over {DRAWS} draws of the noise; H = {HALF} where nothing else is"
        " said\n",
        soft_wrap=True,
    )
    tables = list(results.values())
    for line in (*_precision_table(tables), "", *_budget_table(tables), ""):
        out.print(line, markup=False, soft_wrap=True)


def _precision_table(seeds: Sequence[SeedResults]) -> Iterator[str]:
    yield "| score | average precision | less alone | gap closed |"
    yield "|---|---|---|---|"
    alone, joined = (_precisions(seeds, row) for row in (ALONE, JOINED))
    gap = _mean(joined) - _mean(alone)
    for row in seeds[0]:
        own = _precisions(seeds, row)
        over = [one - other for one, other in zip(own, alone, strict=True)]
        cells = (
            row,
            _interval(interval_over_seeds(own)),
            _interval(interval_over_seeds(over), signed=True),
            f"{_mean(over) / gap:.2f}" if gap > 0 else "no gap",
        )
        yield f"| {' | '.join(cells)} |"


def _budget_table(seeds: Sequence[SeedResults]) -> Iterator[str]:
    """Known: accounts that turned out not to be ordinary, of those scored that are not."""
    heads = (f"{share:.2%}: precision | recall | known" for share in ALERT_BUDGETS)
    yield f"| alerts | {' | '.join(heads)} |"
    yield "|---" * (1 + 3 * len(ALERT_BUDGETS)) + "|"
    for row in seeds[0]:
        cells = [row]
        for number in range(len(ALERT_BUDGETS)):
            cells.append(f"{_mean([seed[row].precision[number] for seed in seeds]):.3f}")
            cells.append(f"{_mean([seed[row].recall[number] for seed in seeds]):.3f}")
            cells.append(_known(seeds, row, number))
        yield f"| {' | '.join(cells)} |"


def _known(seeds: Sequence[SeedResults], row: str, number: int) -> str:
    found, all_of_them = [], []
    for seed in seeds:
        measured = seed[row]
        if measured.known is None or measured.not_ordinary is None:
            return "-"
        found.append(measured.known[number])
        all_of_them.append(measured.not_ordinary)
    return f"{_mean(found):.1f} of {_mean(all_of_them):.0f}"


def _precisions(seeds: Sequence[SeedResults], row: str) -> list[float]:
    return [seed[row].average_precision for seed in seeds]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _interval(interval: Interval, *, signed: bool = False) -> str:
    form = "+.3f" if signed else ".3f"
    if interval.low is None or interval.high is None:
        return f"{interval.value:{form}}"
    return f"{interval.value:{form}} ({interval.low:{form}} to {interval.high:{form}})"
