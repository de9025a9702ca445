"""What a person decides about a training run; everything has a default but ε.

The same names on the command line and in a TOML file:

    epsilon = 1.0
    honest-banks = 2
    alert-share = 0.001
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, field_validator, model_validator

from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import CountedSets
from pv4fad.forest import paper
from pv4fad.forest.config import ForestConfig
from pv4fad.forest.pairs import CountConfig
from pv4fad.payments.schema import PAPER_CONDITIONS, PAPER_FEATURES
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon
from pv4fad.protocol.parameters import Mode, NoiseMode
from pv4fad.schema import Absent, Schema
from pv4fad.validated import ValidatedModel
from pv4fad.workers import Workers, given_workers

_CONDITIONS = 10  # in the menu of the paper's trees, over all sides
_OF_MODEL = {
    "evidence": ("sets", "absent", "alert_share"),
    "paper": ("scoring", "bound", "trees", "height"),
}


class TrainingSettings(ValidatedModel):
    """Decides the model and the privacy of a run.  Where it runs, and how fast, is not here."""

    epsilon: str
    """The privacy loss of this run; `none` must be written out and means no noise at all."""
    model: Literal["evidence", "paper"] = "evidence"
    """Evidence from noisy counts, or the random decision trees of the paper."""
    noise: Literal["distributed", "per-bank"] = "distributed"
    """Whether the honest banks add the noise together, or every bank adds all of it."""
    honest_banks: int | None = Field(default=None, ge=1)
    """Distributed noise: how many banks are assumed to add their noise and keep it to themselves.

    By default half of the banks, rounded up.  With 1, no bank relies on another; this
    costs as much noise as `per-bank`.
    """
    metered: bool = False
    """Whether the aggregator opens answers, and counts the positive ones: see the threat model."""
    seed: int | None = Field(default=None, ge=0)
    """Of sampling and tree structure.  By default it is drawn, and secret."""

    # The default model.
    sets: CountedSets = "fine"
    """What is counted in every cell: fine tells classes apart, coarse ordinary accounts only."""
    absent: Absent = "class"
    """Whether an account that no bank has is a class of its own, or as good as ordinary."""
    alert_share: float = Field(default=0.002, gt=0, le=0.1)
    """The share of payments expected to become alerts; scoring can lower it."""

    # The paper's model.
    scoring: Literal["decisions", "votes"] = "decisions"
    """One bit about an account where it can change the decision, or a vote total per side."""
    bound: int = Field(default=paper.BOUND, ge=1)
    """Most weight that one account contributes to all sums together."""
    trees: int = Field(default=paper.TREES, ge=1, le=1024)
    """Number of trees."""
    height: int = Field(default=paper.HEIGHT, ge=1)
    """Tests on a path."""

    @field_validator("epsilon", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Any:
        """TOML has numbers; 0.1 there means a tenth, not the binary fraction next to it."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        return epsilon_text(parse_epsilon(value)) if isinstance(value, str) else value

    @field_validator("epsilon")
    @classmethod
    def _above_zero(cls, value: str) -> str:
        if value == "0":
            raise ParameterError("epsilon must be greater than 0, for example 1")
        return value

    @model_validator(mode="after")
    def _options_fit_the_model(self) -> TrainingSettings:
        for model, names in _OF_MODEL.items():
            wrong = [
                name
                for name in names
                if model != self.model and getattr(self, name) != _default(type(self), name)
            ]
            if wrong:
                raise ParameterError(f"{wrong[0]} is an option of model {model} only")
        return self

    @property
    def exact_epsilon(self) -> Epsilon:
        return parse_epsilon(self.epsilon)

    @property
    def noise_mode(self) -> NoiseMode:
        """As the run's parameters have it."""
        return "none" if self.epsilon == "none" else self.noise

    @property
    def mode(self) -> Mode:
        """What training ends with."""
        if self.model == "evidence":
            return "counts"
        return "released" if self.scoring == "decisions" else "sealed"

    def forest_config(self, schema: Schema) -> ForestConfig:
        """The forest; what others see of it follows from here and not from any data."""
        of_payments = schema.format == "payments"
        even = (_CONDITIONS // schema.n_sides,) * schema.n_sides
        return paper.paper_forest(
            self.trees,
            self.height,
            n_atoms=len(schema.record.classes),
            listed=PAPER_CONDITIONS if of_payments else even,
            features=PAPER_FEATURES if of_payments else None,
        )

    def count_config(self, labels: NDArray[np.int8]) -> CountConfig:
        """What the pairs of the forest count; `labels`: of the training payments."""
        return paper.paper_counts(float(labels.mean()), self.trees, self.bound)


def _default(cls: type[TrainingSettings], name: str) -> Any:
    return cls.model_fields[name].default


class TrainingOptions(TrainingSettings):
    """The settings and what else `pv4fad train` lets one decide."""

    scenario: str | None = None
    """Which scenario of a challenge folder; needed if it has several."""
    workers: Annotated[Workers, AfterValidator(given_workers)] = None
    """Worker processes, `ray`, or the address of a Ray cluster; by default a process per core."""
    bank_limit: str | None = None
    """The ε that every bank allows in total; by default that of this run."""

    @field_validator("bank_limit", mode="before")
    @classmethod
    def _exact_limit(cls, value: Any) -> Any:
        return cls._exact(value)

    @model_validator(mode="after")
    def _given_options_fit_the_model(self) -> TrainingOptions:
        """Also those that were given with the value that they have anyway."""
        for model, names in _OF_MODEL.items():
            wrong = [name for name in names if name in self.model_fields_set]
            if model != self.model and wrong:
                raise ParameterError(f"{wrong[0]} is an option of model {model} only")
        return self

    @property
    def exact_bank_limit(self) -> Epsilon:
        return parse_epsilon(self.epsilon if self.bank_limit is None else self.bank_limit)

    def settings(self) -> TrainingSettings:
        """Without what the model does not depend on."""
        return TrainingSettings(**self.model_dump(include=set(TrainingSettings.model_fields)))


def read_options(path: Path) -> dict[str, Any]:
    """The options in a TOML file, by field name; what they mean is checked by the model."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: {error}") from None
    options = {name.replace("-", "_"): value for name, value in content.items()}
    unknown = sorted(set(options) - set(TrainingOptions.model_fields))
    if unknown:
        known = ", ".join(TrainingOptions.model_fields)
        raise ParameterError(f"{path}: unknown option {unknown[0]!r}; known: {known}")
    return options
