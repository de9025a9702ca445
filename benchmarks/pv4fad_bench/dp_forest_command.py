"""`pv4fad bench dp-forest`: the private forest against diffprivlib's, on public data sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from pv4fad.cli.console import out, progress_bar
from pv4fad.files import require_writable, write_whole
from pv4fad_bench.dp_forest import Comparison, Measured, Setting, compare_forests, n_comparisons

FASTER = 3  # what is promised


def command(
    *,
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder with {adult,mushroom,nursery}.csv.gz."),
    ],
    trees: Annotated[int, typer.Option(min=1, help="Trees of both forests.")] = 20,
    depth: Annotated[int, typer.Option(min=1, help="Levels of both forests.")] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="Forests of each kind.")] = 5,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.", dir_okay=False)
    ] = None,
) -> None:
    """Accuracy and fitting time of the private forest, compared with diffprivlib's."""
    require_writable(json_file)
    setting = Setting(trees, depth, seeds)
    comparisons = []
    with progress_bar() as bars:
        task = bars.add_task("comparing", total=n_comparisons())
        for comparison in compare_forests(data, setting):
            comparisons.append(comparison)
            bars.advance(task)
    if json_file is not None:
        document = asdict(setting) | {"comparisons": [one.document() for one in comparisons]}
        write_whole(json_file, json.dumps(document, indent=2) + "\n")
    out.print(f"{trees} trees of depth {depth}, {seeds} seeds: mean accuracy ± standard deviation.")
    out.print("largest: always the largest class. fit: CPU seconds, diffprivlib and pv4fad.")
    out.print(_table(comparisons))
    as_accurate = sum(one.ours.accuracy >= one.theirs.accuracy for one in comparisons)
    as_fast = sum(one.times_faster >= FASTER for one in comparisons)
    out.print(f"at least as accurate as diffprivlib: {as_accurate} of {len(comparisons)}")
    out.print(f"at least {FASTER} times as fast: {as_fast} of {len(comparisons)}")


def _table(comparisons: Sequence[Comparison]) -> Table:
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("data", no_wrap=True)
    for heading in ("ε", "largest", "diffprivlib", "pv4fad", "fit: CPU s", "faster"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in comparisons:
        table.add_row(
            one.data,
            f"{one.epsilon:g}",
            f"{one.largest_class:.3f}",
            _accuracy(one.theirs),
            _accuracy(one.ours),
            f"{one.theirs.fit_s:.3f} {one.ours.fit_s:.3f}",
            f"{one.times_faster:.1f}×",
        )
    return table


def _accuracy(measured: Measured) -> str:
    return f"{measured.accuracy:.3f} ±{measured.deviation:.3f}"
