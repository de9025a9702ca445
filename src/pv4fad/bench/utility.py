"""`pv4fad bench utility`: how much of what joined data would find the private model finds.

For every data seed, on generated data that was not used before:

    alone       the payment network's local model
    joined      the same model with the flags of both accounts: all data in one place
    votes, calibrated, stacked     the combiners, at several ε
    controls    at ε = 1: flags shuffled among all accounts; coin flips instead of the labels of
                red leaves; banks that know no account.  And ε = 1 where no bank relies on
                another: every bank adds all of the noise

Otherwise one discrete Laplace draw is in each sum: all banks keep their noise to themselves.  The
runs are in the clear (`clear_run`).  Finished seeds are kept in the JSON file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad import __version__
from pv4fad.bench.clear_run import Accounts, ClearRun, Records, RedLabels
from pv4fad.data.generate import Difficulty, Settings, generate_tables
from pv4fad.data.schema import LABEL
from pv4fad.detection.recipe import COMBINERS, Combiner
from pv4fad.errors import DataError
from pv4fad.evaluation.measures import ALERT_BUDGETS, at_budget, average_precision
from pv4fad.files import write_whole
from pv4fad.privacy.epsilon import epsilon_text, parse_epsilon
from pv4fad.runs.settings import TrainingSettings

SETTINGS = TrainingSettings(epsilon="none")  # noise is added afterwards, for every ε
EPSILONS = ("none", "5", "1", "0.5", "0.1")
CONTROL_EPSILON = "1"
ALONE, JOINED = "alone", "joined"
BANKS = 25


@dataclass(frozen=True)
class Setting:
    """What is studied."""

    transactions: int
    difficulty: Difficulty


@dataclass(frozen=True)
class Measured:
    """How well one way of scoring found the anomalies of one test period."""

    average_precision: float
    precision: tuple[float, ...]  # by alert budget
    recall: tuple[float, ...]

    @classmethod
    def of(cls, labels: NDArray[np.int8], scores: NDArray[np.float64]) -> Measured:
        budgets = [at_budget(labels, scores, share) for share in ALERT_BUDGETS]
        return cls(
            average_precision(labels, scores),
            tuple(one.precision for one in budgets),
            tuple(one.recall for one in budgets),
        )


SeedResults = dict[str, Measured]
Tell = Callable[[str], None]


def row_name(combiner: Combiner, epsilon: str) -> str:
    """Of a combiner at an ε."""
    return f"{combiner}, ε = {epsilon}"


def n_steps() -> int:
    """How often a seed tells what it does."""
    return 2 + 2 + len(EPSILONS) + 4


def study_seed(setting: Setting, seed: int, tell: Tell = lambda _: None) -> SeedResults:
    """Everything about one data seed; it also decides the trees."""
    tell("data")
    tables = generate_tables(Settings(setting.transactions, BANKS, setting.difficulty, seed))
    labels = tables.test.transactions[LABEL].to_numpy().astype(np.int8)
    tell("features and local model")
    run = ClearRun(
        tables.train.transactions,
        tables.test.transactions,
        tables.accounts,
        SETTINGS,
        seed,
    )
    del tables
    found = {ALONE: Measured.of(labels, run.alone)}
    tell("joined")
    found[JOINED] = Measured.of(labels, run.joined(seed))

    def add(names: Mapping[Combiner, str], red: RedLabels, records: Records, **noise: Any) -> None:
        totals = run.votes(red, records)
        for combiner, name in names.items():
            found[name] = Measured.of(labels, run.scores(combiner, totals, **noise))

    true = run.records(run.accounts)
    for text in EPSILONS:
        tell(f"ε = {text}")
        epsilon = parse_epsilon(text)
        red = run.red_labels(true, epsilon, 1)
        names = {one: row_name(one, epsilon_text(epsilon)) for one in COMBINERS}
        add(names, red, true, epsilon=epsilon, draws=1)

    epsilon = parse_epsilon(CONTROL_EPSILON)
    rng = np.random.default_rng([seed, 3])
    for control, accounts, draws in _controls(run.accounts, rng):
        tell(control)
        records = run.records(accounts)
        red = run.red_labels(records, epsilon, draws)
        if control == COIN_FLIPS:
            red = rng.integers(0, 2, red.shape).astype(np.int8)
        names = {one: f"{one}, {control}" for one in COMBINERS if one != "votes"}
        add(names, red, records, epsilon=epsilon, draws=draws)
    return found


COIN_FLIPS = "coin-flip labels"
EVERY_BANK = "all noise by every bank"


def _controls(
    accounts: Accounts, rng: np.random.Generator
) -> tuple[tuple[str, Accounts | None, int], ...]:
    """Name, what the banks know, how often the noise is added."""
    return (
        (EVERY_BANK, accounts, len(accounts)),
        ("shuffled flags", shuffled_flags(accounts, rng), 1),
        (COIN_FLIPS, accounts, 1),
        ("no bank", None, 1),
    )


def shuffled_flags(accounts: Accounts, rng: np.random.Generator) -> Accounts:
    """The same accounts and the same flags, but not of each other."""
    flags = pl.concat(frame["Flags"] for frame in accounts.values())
    flags = flags[rng.permutation(len(flags))]
    shuffled, start = {}, 0
    for bank, frame in accounts.items():
        shuffled[bank] = frame.with_columns(Flags=flags[start : start + frame.height])
        start += frame.height
    return shuffled


class StudyFile:
    """The results so far, in a JSON file; a study that was interrupted carries on from there."""

    def __init__(self, path: Path | None, transactions: int) -> None:
        self._path = path
        self._transactions = transactions
        self._results: dict[str, dict[str, SeedResults]] = {}
        if path is not None and path.exists():
            self._read(path)

    def finished(self, difficulty: Difficulty) -> dict[int, SeedResults]:
        """By seed."""
        return {int(seed): one for seed, one in self._results.get(difficulty, {}).items()}

    def add(self, difficulty: Difficulty, seed: int, results: SeedResults) -> None:
        """Keep the results of a seed, at once."""
        self._results.setdefault(difficulty, {})[str(seed)] = results
        if self._path is None:
            return
        write_whole(self._path, json.dumps(self._document(), indent=1) + "\n")

    def _document(self) -> dict[str, Any]:
        return {
            "study": "pv4fad bench utility",
            **self._setting(),
            "alert_budgets": ALERT_BUDGETS,
            "results": {
                difficulty: {
                    seed: {row: asdict(one) for row, one in rows.items()}
                    for seed, rows in seeds.items()
                }
                for difficulty, seeds in self._results.items()
            },
        }

    def _setting(self) -> dict[str, Any]:
        """What results have to have in common."""
        return {
            "program": __version__,
            "transactions": self._transactions,
            "banks": BANKS,
            "training": SETTINGS.model_dump(mode="json"),
        }

    def _read(self, path: Path) -> None:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            results = document["results"]
            setting = {name: document[name] for name in self._setting()}
            self._results = {
                difficulty: {
                    seed: {
                        row: Measured(
                            one["average_precision"], tuple(one["precision"]), tuple(one["recall"])
                        )
                        for row, one in rows.items()
                    }
                    for seed, rows in seeds.items()
                }
                for difficulty, seeds in results.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path}: holds no study of pv4fad bench utility") from None
        differ = [name for name, value in self._setting().items() if setting[name] != value]
        if differ:
            raise DataError(
                f"{path}: holds a study with another setting ({', '.join(differ)}); name another"
                " file"
            )
