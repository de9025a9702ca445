"""`pv4fad bench dp-forest`: the private forest against diffprivlib's, accuracy and time to fit.

Both get the same rows, bounds and classes, the same ε, the same number of trees and the same depth;
everything else is as each has it by default.  One seed is one structure and one draw of noise (and,
for diffprivlib, one deal of the rows to its trees).  Time is CPU time, which other programs on the
machine hardly touch; both forests are fitted by one thread.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

from pv4fad.cli.console import out, progress_bar
from pv4fad.errors import ParameterError
from pv4fad.estimator import RandomDecisionForestClassifier
from pv4fad.files import require_writable, write_whole
from pv4fad_bench.tabular import CODEBOOKS, TabularData, load_tabular

EPSILONS = (0.1, 1.0, 5.0)
FASTER = 3  # what is promised


@dataclass(frozen=True)
class Setting:
    """What both forests have in common."""

    n_trees: int
    max_depth: int
    n_seeds: int


@dataclass(frozen=True)
class Measured:
    """A forest over all seeds: accuracy on the test rows, CPU seconds of `fit`."""

    accuracy: float
    deviation: float
    fit_s: float


@dataclass(frozen=True)
class Comparison:
    """One data set and one ε."""

    data: str
    epsilon: float
    largest_class: float
    ours: Measured
    theirs: Measured

    @property
    def times_faster(self) -> float:
        return self.theirs.fit_s / self.ours.fit_s

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"times_faster": self.times_faster}


def compare_forests(folder: Path, setting: Setting) -> Iterator[Comparison]:
    """One comparison after the other: every data set of the folder with every ε."""
    rival = _rival()
    for data in [load_tabular(folder, codebook) for codebook in CODEBOOKS]:
        for epsilon in EPSILONS:
            yield _compare(data, epsilon, setting, rival)


def n_comparisons() -> int:
    """How many comparisons `compare_forests` gives."""
    return len(CODEBOOKS) * len(EPSILONS)


def _compare(data: TabularData, epsilon: float, setting: Setting, rival: Any) -> Comparison:
    seeds = range(setting.n_seeds)
    n_classes = len(data.codebook.classes)
    ours = [
        RandomDecisionForestClassifier(
            setting.n_trees,
            setting.max_depth,
            epsilon=epsilon,
            domains=data.domains,
            classes=range(n_classes),
            random_state=seed,
        )
        for seed in seeds
    ]
    theirs = [
        rival(
            setting.n_trees,
            max_depth=setting.max_depth,
            epsilon=epsilon,
            bounds=data.bounds,
            classes=np.arange(n_classes),
            shuffle=True,  # the files are sorted: in order, a tree would see one kind of rows only
            random_state=seed,
        )
        for seed in seeds
    ]
    largest = np.bincount(data.train.label).argmax()
    return Comparison(
        data=data.codebook.name,
        epsilon=epsilon,
        largest_class=float(np.mean(data.test.label == largest)),
        ours=_measure(ours, data),
        theirs=_measure(theirs, data),
    )


def _measure(forests: Sequence[Any], data: TabularData) -> Measured:
    accuracies, fit_s = [], []
    for forest in forests:
        start = time.process_time()
        forest.fit(data.train.features, data.train.label)
        fit_s.append(time.process_time() - start)
        accuracies.append(float(np.mean(forest.predict(data.test.features) == data.test.label)))
    return Measured(fmean(accuracies), pstdev(accuracies), median(fit_s))


def _rival() -> Any:
    try:
        models = importlib.import_module("diffprivlib.models")
    except ImportError:
        raise ParameterError(
            "this benchmark needs diffprivlib: pip install 'pv4fad[bench]'"
        ) from None
    return models.RandomForestClassifier


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
