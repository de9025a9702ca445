"""What a person decides about a training run; everything has a default but ε.

The same names on the command line and in a TOML file:

    epsilon = 1.0
    structure = "template"
    honest-banks = 2
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pv4fad.data.schema import FLAG_CODES, NO_FLAG
from pv4fad.detection.recipe import LOCAL_SCORE, Combiner
from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig
from pv4fad.forest.pairs import CountConfig, ladder
from pv4fad.forest.shapes import BOTH_SIDES_NORMAL, ConditionConfig, RandomShape, TemplateShape
from pv4fad.forest.validated import ValidatedModel
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon
from pv4fad.protocol.parameters import Mode, NoiseMode

SIDES: tuple[Literal["ordering", "beneficiary"], ...] = ("ordering", "beneficiary")
MILD_FLAGS = ("03", "04", "05")  # recently opened, name mismatch, under monitoring
WARNING_FLAGS = tuple(code for code in FLAG_CODES if code != NO_FLAG)
_HEIGHTS = {"template": 1, "random": 4}
_HIGHEST_TEMPLATE = 3  # a bank node and at most two cuts

# Every other tree tells mild from severe flags, and the others flagged accounts from absent ones.
_RECIPE = tuple(
    ConditionConfig(side=side, sets=((NO_FLAG,), codes))
    for codes in (MILD_FLAGS, WARNING_FLAGS)
    for side in SIDES
)


class TrainingSettings(ValidatedModel):
    """Decides the model and the privacy of a run.  Where it runs, and how fast, is not here."""

    epsilon: str
    """The privacy loss of this run; `none` must be written out and means no noise at all."""
    bound: int = Field(default=1, ge=1)
    """Most weight that one account contributes to all sums together."""
    structure: Literal["template", "random"] = "template"
    trees: int = Field(default=24, ge=1, le=1024)
    height: int | None = Field(default=None, ge=1)
    """Tests on a path; by default 1 for template trees, the bank node alone, and 4 for random."""
    noise: Literal["distributed", "per-bank"] = "distributed"
    honest_banks: int = Field(default=1, ge=1)
    """Distributed noise: how many banks are assumed not to tell their noise to others.

    1 assumes nothing, and costs as much noise as `per-bank`.
    """
    slots: tuple[str, ...] = ()
    """Private slots that the trees may ask about; each bank says what they mean to it."""
    mode: Mode = "sealed"
    combiner: Combiner | None = None
    """How votes and local model become a score; by default `calibrated`, or `votes` where trees
    have tests of the payment network."""
    seed: int | None = Field(default=None, ge=0)
    """Of tree structure and sampling.  By default it is drawn, and secret like the structure."""

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
            raise ParameterError("epsilon 0: no run has none; give more, such as 1")
        return value

    @model_validator(mode="after")
    def _height_fits(self) -> TrainingSettings:
        if self.structure == "template" and self.tree_height > _HIGHEST_TEMPLATE:
            raise ParameterError(
                f"height {self.height}: template trees have a height of at most "
                f"{_HIGHEST_TEMPLATE}; give less, or structure random"
            )
        if self.combiner == "calibrated" and not self.bank_nodes_only:
            raise ParameterError(
                "combiner calibrated: it needs the votes of trees that ask the bank and nothing"
                " else: structure template with height 1; or give combiner stacked or votes"
            )
        return self

    @property
    def exact_epsilon(self) -> Epsilon:
        return parse_epsilon(self.epsilon)

    @property
    def noise_mode(self) -> NoiseMode:
        """As the run's parameters have it."""
        return "none" if self.epsilon == "none" else self.noise

    @property
    def tree_height(self) -> int:
        return _HEIGHTS[self.structure] if self.height is None else self.height

    @property
    def chosen_combiner(self) -> Combiner:
        if self.combiner is not None:
            return self.combiner
        return "calibrated" if self.bank_nodes_only else "votes"

    @property
    def cuts_local_score(self) -> bool:
        """Whether trees test the local score, so that it is a feature."""
        return self.structure == "template" and self.tree_height > 1

    @property
    def needs_local_model(self) -> bool:
        return self.cuts_local_score or self.chosen_combiner != "votes"

    @property
    def bank_nodes_only(self) -> bool:
        """Whether an account gets the same votes whatever its payment looks like."""
        return self.structure == "template" and self.tree_height == 1

    def forest_config(self) -> ForestConfig:
        """The forest; what others see of it follows from here and not from any data."""
        # All conditions have as many sets, and a private slot has one.
        two_sets = self.structure == "template" and not self.slots
        flags = _RECIPE if two_sets else BOTH_SIDES_NORMAL
        conditions = flags + tuple(
            ConditionConfig(side=side, family=slot, sets=(("yes",),))
            for slot in self.slots
            for side in SIDES
        )
        shape: RandomShape | TemplateShape
        if self.structure == "random":
            shape = RandomShape(height=self.tree_height, conditions=conditions)
        else:
            cuts = range(self.tree_height)
            shape = TemplateShape.bank_on_top(conditions, LOCAL_SCORE, cuts)
        return ForestConfig(n_trees=self.trees, shape=shape, slots=self.slots)

    def count_config(self) -> CountConfig:
        """Anomalies are rare: without a ladder every leaf would be labelled 0."""
        return CountConfig(bound=self.bound, label0_rates=self.ladder_rates())

    def ladder_rates(self) -> tuple[float, ...]:
        """At which each tree keeps label-0 payments."""
        return ladder(self.trees)


class TrainingOptions(TrainingSettings):
    """The settings and what else `pv4fad train` lets one decide."""

    scenario: str | None = None
    """Which scenario of a challenge folder; needed if it has several."""
    workers: int | None = Field(default=None, ge=0)
    """Worker processes; by default one per core."""
    bank_limit: str | None = None
    """The ε that every bank allows in total; by default that of this run."""

    @field_validator("bank_limit", mode="before")
    @classmethod
    def _exact_limit(cls, value: Any) -> Any:
        return cls._exact(value)

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
    except ValueError as error:
        raise ParameterError(f"{path}: {error}") from None
    options = {name.replace("-", "_"): value for name, value in content.items()}
    unknown = sorted(set(options) - set(TrainingOptions.model_fields))
    if unknown:
        known = ", ".join(TrainingOptions.model_fields)
        raise ParameterError(f"{path}: unknown option {unknown[0]!r}; known: {known}")
    return options
