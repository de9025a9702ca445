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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pv4fad import __version__
from pv4fad.bench.clear_run import Accounts, ClearRun, Records, RedLabels
from pv4fad.data.generate import Difficulty, Settings, generate_tables
from pv4fad.data.schema import LABEL
from pv4fad.detection import recipe
from pv4fad.detection.recipe import COMBINERS, Combiner
from pv4fad.detection.stacked import OUTSIDE_THE_CLAIM
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


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class Setting:
    """What is studied."""

    transactions: int
    difficulty: Difficulty


@dataclass(frozen=True)
class Measured:
    """How well one way of scoring found the anomalies of one test period."""

    average_precision: Share
    precision: tuple[Share, ...]  # by alert budget
    recall: tuple[Share, ...]

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
    if not labels.any():
        raise DataError(
            f"{setting.difficulty.value}, seed {seed}: none of the {len(labels):,} test"
            " transactions is anomalous; study more transactions, or other seeds"
        )
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


class StudyDocument(BaseModel):
    """A study as it is kept; what is not one is refused when it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Literal["pv4fad bench utility"]
    program: str
    recipe: int
    transactions: int
    banks: int
    training: dict[str, Any]
    alert_budgets: tuple[float, ...]
    outside_the_claim: str
    results: dict[Difficulty, dict[int, SeedResults]]

    @classmethod
    def empty(cls, transactions: int) -> Self:
        """A study of this program that has not begun."""
        return cls(
            study="pv4fad bench utility",
            program=__version__,
            recipe=recipe.VERSION,
            transactions=transactions,
            banks=BANKS,
            training=SETTINGS.model_dump(mode="json"),
            alert_budgets=ALERT_BUDGETS,
            outside_the_claim=OUTSIDE_THE_CLAIM,
            results={},
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        all_rows = [rows for seeds in self.results.values() for rows in seeds.values()]
        n = len(self.alert_budgets)
        for rows in all_rows:
            if rows.keys() != all_rows[0].keys() or not {ALONE, JOINED} <= rows.keys():
                raise ValueError("not the same rows for every seed")
            if any((len(one.precision), len(one.recall)) != (n, n) for one in rows.values()):
                raise ValueError("not one value for each alert budget")
        return self


class StudyFile:
    """The results so far, in a JSON file; a study that was interrupted carries on from there."""

    def __init__(self, path: Path | None, transactions: int) -> None:
        self._path = path
        self._document = StudyDocument.empty(transactions)
        if path is not None and path.exists():
            self._document = self._read(path)

    def finished(self, difficulty: Difficulty) -> dict[int, SeedResults]:
        """By seed."""
        return self._document.results.get(difficulty, {})

    def add(self, difficulty: Difficulty, seed: int, results: SeedResults) -> None:
        """Keep the results of a seed, at once."""
        seeds = self.finished(difficulty) | {seed: results}
        everything = self._document.results | {difficulty: seeds}
        self._document = self._document.model_copy(update={"results": everything})
        if self._path is not None:
            write_whole(self._path, self._document.model_dump_json(indent=1) + "\n")

    def _read(self, path: Path) -> StudyDocument:
        try:
            found = StudyDocument.model_validate_json(path.read_bytes())
        except ValidationError:
            raise DataError(
                f"{path}: is damaged, or holds no study of this version of pv4fad bench utility;"
                " name another file, or remove it"
            ) from None
        mine = self._document
        differ = [
            name
            for name in ("program", "recipe", "transactions", "banks", "training", "alert_budgets")
            if getattr(found, name) != getattr(mine, name)
        ]
        if differ:
            raise DataError(
                f"{path}: holds a study with another setting ({', '.join(differ)}); name another"
                " file"
            )
        return found
