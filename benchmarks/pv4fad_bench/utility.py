"""`pv4fad bench utility`: how much of what joined data would find the private model finds.

For every data seed, on generated data that was not used before:

    alone       the payment network's local model
    joined      the same model with the flags of both accounts: all data in one place
    evidence    ε-private counts and one-bit answers, at several ε; half of the banks are relied
                on to keep their noise to themselves (H = 13), or no other bank (H = 1)
    controls    at ε = 1: classes shuffled among the accounts in training; counts of pure noise,
                as if all accounts were ordinary; banks that know no account
    paper       the paper's model (`paper_model`)

Alone, joined and evidence all have the payment network's own label history.  Scores are those of
the predictions: asked for the alert share at which precision and recall are measured, and for the
largest of them where average precision is.  Noise is drawn several times; all figures of a seed
are means over the draws.  Runs are in the clear (`clear_run`).  Finished seeds are kept in the JSON
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy.special import stdtrit

from pv4fad import __version__
from pv4fad.errors import DataError, ParameterError
from pv4fad.evaluation.measures import ALERT_BUDGETS, Interval, at_budget, average_precision
from pv4fad.evidence.classes import ORDINARY
from pv4fad.files import write_whole
from pv4fad.payments.generate import Difficulty
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad_bench.clear_run import ABSENT, ClearRun, Kinds, Release
from pv4fad_bench.prepared import BANKS, STEPS, Prepared, Setting, Tell, prepared

RECIPE = 5
"""Of everything between data and scores; another one where the same data gives other scores."""
EPSILONS = ("none", "5", "1", "0.5", "0.1")
CONTROL_EPSILON = "1"
HALF, ONE = (BANKS + 1) // 2, 1  # banks that are relied on
DRAWS = 4  # of the noise, for each seed
ALONE, JOINED = "alone", "joined"


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Measured:
    """How well one way of scoring found the anomalies of one test period, and at which price."""

    average_precision: Share
    precision: tuple[Share, ...]  # by alert budget
    recall: tuple[Share, ...]
    known: tuple[Number, ...] | None = None
    """By alert budget: accounts that the payment network knows not to be ordinary."""
    not_ordinary: int | None = None
    """Of the accounts in the test period."""

    @classmethod
    def of(cls, labels: NDArray[np.int8], scores: NDArray[np.float64]) -> Measured:
        """Of scores that are the same for every alert budget."""
        budgets = [at_budget(labels, scores, share) for share in ALERT_BUDGETS]
        return cls(
            average_precision(labels, scores),
            tuple(one.precision for one in budgets),
            tuple(one.recall for one in budgets),
        )


SeedResults = dict[str, Measured]


@dataclass(frozen=True)
class Row:
    """A row of evidence: how counts are released, and what the banks know."""

    name: str
    release: Release
    control: Literal["", "shuffled", "pure noise", "no bank"] = ""

    def kinds(self, run: ClearRun, rng: np.random.Generator) -> tuple[Kinds, Kinds]:
        """Of the accounts in training, of those to be scored."""
        true, new = run.kinds, run.new_kinds
        match self.control:
            case "shuffled":
                return rng.permutation(true), new
            case "pure noise":
                return np.full_like(true, ORDINARY), new
            case "no bank":
                return np.full_like(true, ABSENT), np.full_like(new, ABSENT)
        return true, new


def evidence_rows() -> Iterator[Row]:
    """In the order in which they are printed."""
    for epsilon in EPSILONS:
        yield Row(f"evidence, ε = {epsilon}", Release(parse_epsilon(epsilon), HALF))
    control = parse_epsilon(CONTROL_EPSILON)
    yield Row(f"evidence, ε = {control}, H = 1", Release(control, ONE))
    yield Row(f"coarse, ε = {control}", Release(control, HALF, "coarse"))
    yield Row(f"coarse, ε = {control}, H = 1", Release(control, ONE, "coarse"))
    yield Row("control: shuffled classes", Release(control, HALF), "shuffled")
    yield Row("control: pure noise", Release(control, HALF), "pure noise")
    yield Row("control: no bank", Release(control, HALF), "no bank")


def n_steps() -> int:
    """How often a seed tells what it does, at most."""
    return len(STEPS) + 1 + len(list(evidence_rows()))


def study_seed(
    setting: Setting, seed: int, folder: Path | None = None, tell: Tell = lambda _: None
) -> SeedResults:
    """Everything about one data seed; it also decides what else is drawn, but for noise."""
    data = prepared(setting, seed, folder, tell)
    tell("own evidence")
    run, labels = ClearRun(data, seed), data.labels
    found = {ALONE: Measured.of(labels, run.alone), JOINED: Measured.of(labels, run.joined)}
    for row in evidence_rows():
        tell(row.name)
        found[row.name] = measure(run, data, row, np.random.default_rng([seed, 3]))
    return found | {name: Measured.of(labels, scores) for name, scores in data.paper.items()}


def measure(run: ClearRun, data: Prepared, row: Row, rng: np.random.Generator) -> Measured:
    """The mean over draws of the noise."""
    n_draws = 1 if row.release.epsilon == "none" else DRAWS
    values = np.empty((n_draws, 3, len(ALERT_BUDGETS)))
    averages = np.empty(n_draws)
    for draw in range(n_draws):
        kinds, new = row.kinds(run, rng)
        model = run.model(kinds, row.release)
        for number, share in enumerate(ALERT_BUDGETS):
            outcome = run.decide(model, new, share)
            top = at_budget(data.labels, outcome.score, share)
            values[draw, :, number] = top.precision, top.recall, outcome.n_accounts_positive
        averages[draw] = average_precision(data.labels, outcome.score)  # of the largest share
    precision, recall, known = (tuple(one) for one in values.mean(axis=0).tolist())
    not_ordinary = int((new[np.unique(data.new_key_of)] != ORDINARY).sum())
    return Measured(float(averages.mean()), precision, recall, known, not_ordinary)


class StudyDocument(BaseModel):
    """A study as it is kept; what is not one is refused when it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Literal["pv4fad bench utility"]
    program: str
    recipe: int
    transactions: int
    banks: int
    draws: int
    alert_budgets: tuple[float, ...]
    results: dict[Difficulty, dict[int, SeedResults]]

    @classmethod
    def empty(cls, transactions: int) -> Self:
        """A study of this program that has not begun."""
        return cls(
            study="pv4fad bench utility",
            program=__version__,
            recipe=RECIPE,
            transactions=transactions,
            banks=BANKS,
            draws=DRAWS,
            alert_budgets=ALERT_BUDGETS,
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
            for name in ("program", "recipe", "transactions", "banks", "draws", "alert_budgets")
            if getattr(found, name) != getattr(mine, name)
        ]
        if differ:
            raise DataError(
                f"{path}: holds a study with another setting ({', '.join(differ)}); name another"
                " file"
            )
        return found


def interval_over_seeds(values: ArrayLike) -> Interval:
    """Mean and 95 % interval of independent repetitions, by Student's t."""
    repetitions = np.asarray(values, dtype=np.float64)
    if repetitions.ndim != 1 or len(repetitions) == 0:
        raise ParameterError("an interval needs a list of values, one at least")
    n, mean = len(repetitions), float(repetitions.mean())
    if n == 1:
        return Interval(mean, None, None)
    quantile = float(stdtrit(n - 1, 0.975))
    half = quantile * float(repetitions.std(ddof=1)) / np.sqrt(n)
    return Interval(mean, mean - half, mean + half)
