"""`pv4fad bench table` and `pv4fad bench scaling`: against the paper, and against the sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pv4fad.cli.console import err, fail, out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.files import require_writable, write_whole
from pv4fad.report.render import render_drawing
from pv4fad.report.texts import size_text
from pv4fad.workers import given_workers
from pv4fad_bench.commands import WRONG, Bar, JsonFile, ModelName, whole_numbers
from pv4fad_bench.figures import (
    HEADINGS,
    HOW_IT_COMPARES,
    details,
    scaling_figure,
    table_cells,
    table_page,
    words_of,
)
from pv4fad_bench.scaling import ScalingReport, bench_scaling
from pv4fad_bench.table import (
    PAPER,
    FinishedRows,
    RowResult,
    Setting,
    bench_table,
    rows_of,
)

ALL_ROWS = ",".join(str(row.number) for row in PAPER)


def table(
    *,
    rows: Annotated[
        str, typer.Option("--rows", help="Rows of the paper's table, separated by commas.")
    ] = ALL_ROWS,
    scale: Annotated[
        float, typer.Option("--scale", help="All sizes times this: 0.1 for a first impression.")
    ] = 1.0,
    workers: Workers = None,
    json_file: JsonFile = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write the table to this file.", dir_okay=False)
    ] = None,
) -> None:
    """The paper's run times, with this system's beside them, every result checked.

    The paper's model scores by votes; the same payments are decided about by the default model.

    With --json, rows are kept as soon as they are finished: the same command goes on after an
    interruption.
    """
    wanted = rows_of(whole_numbers(rows, "--rows"))
    setting = Setting(scale, given_workers(workers))
    require_writable(json_file, html_file)
    finished = FinishedRows(json_file)
    finished.load(setting)
    for row in wanted:
        if row.number in finished.results:
            err.print(f"Row {row.number} is in {json_file} already.")
    try:
        with progress_bar() as bars:
            bench_table(wanted, setting, finished, Bar(bars))
    except KeyboardInterrupt:
        if not finished.results:
            raise
        err.print("Interrupted; these rows are finished:")
    results = [finished.results[row.number] for row in wanted if row.number in finished.results]
    _print_rows(results)
    if html_file is not None:
        write_whole(html_file, table_page(results))
    if not all(all(one.checks.values()) for one in results):
        fail(WRONG, 1)
    if len(results) < len(wanted):
        fail("not all rows are finished", 130)


def _print_rows(results: list[RowResult]) -> None:
    side_by_side = ("This system and the paper", HEADINGS, map(table_cells, results))
    more = ((one.title, one.headings, one.rows) for one in details(results))
    for title, headings, rows in (side_by_side, *more):
        table = Table(title=title)
        for heading in headings:
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(*row)
        out.print(table)
    for one in results:
        for claim, holds in one.checks.items():
            mark = "[green]checked[/]" if holds else "[bold red]WRONG[/]"
            out.print(f"row {one.row.number}: {claim}: {mark}", soft_wrap=True)
    out.print(HOW_IT_COMPARES, soft_wrap=True)


def scaling(
    *,
    accounts: Annotated[
        int, typer.Option("--accounts", min=1, help="Accounts of the smallest job.")
    ] = 25_000,
    model: ModelName = "evidence",
    workers: Workers = None,
    json_file: JsonFile = None,
    figure_file: Annotated[
        Path | None, typer.Option("--figure", help="Draw it: an SVG file.", dir_okay=False)
    ] = None,
) -> None:
    """How the cost grows with accounts, banks, transactions, and red leaves of the paper's."""
    require_writable(json_file, figure_file)
    with progress_bar() as bars:
        report = bench_scaling(accounts, model, workers, Bar(bars))
    if json_file is not None:
        write_whole(json_file, json.dumps(report.document(), indent=2) + "\n")
    if figure_file is not None:
        write_whole(figure_file, render_drawing(scaling_figure(report)))
    _print_scaling(report)
    if not report.passed:
        fail(WRONG, 1)


def _print_scaling(report: ScalingReport) -> None:
    points = Table("size", title=f"Cost against size, model {report.model}")
    for heading in ("", "train CPU s", "train wall s", "score CPU s", "score wall s", "bytes"):
        points.add_column(heading, justify="right")
    for number, one in enumerate(report.points):
        if number and report.points[number - 1].varied != one.varied:
            points.add_section()
        points.add_row(
            words_of(one.varied),
            f"{one.size:,}",
            f"{one.cpu_s['train']:.1f}",
            f"{one.wall_s['train']:.1f}",
            f"{one.cpu_s['score']:.1f}",
            f"{one.wall_s['score']:.1f}",
            size_text(one.n_bytes),
        )
    out.print(points)
    for varied, exponents in report.exponents.items():
        said = ", ".join(f"{kind} {value:.2f}" for kind, value in exponents.items())
        out.print(f"exponent of {words_of(varied)}: {said}")
    n_checks = sum(len(point.checks) for point in report.points)
    out.print(
        f"{n_checks} comparisons with a trusted third party: "
        + ("[green]equal[/]" if report.passed else "[bold red]WRONG[/]")
    )
