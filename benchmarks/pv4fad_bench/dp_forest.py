"""The private forest against that of diffprivlib: accuracy and time to fit.

Both get the same rows, bounds and classes, the same ε, the same number of trees and the same depth;
everything else is as each has it by default.  One seed is one structure and one draw of noise (and,
for diffprivlib, one deal of the rows to its trees).  Time is CPU time, which other programs on the
machine hardly touch; both forests are fitted by one thread.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np

from pv4fad.errors import ParameterError
from pv4fad.estimator import RandomDecisionForestClassifier
from pv4fad_bench.tabular import CODEBOOKS, TabularData, load_tabular

EPSILONS = (0.1, 1.0, 5.0)


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
