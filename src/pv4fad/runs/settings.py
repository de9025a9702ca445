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

from pv4fad.errors import ParameterError
from pv4fad.forest.config import ForestConfig
from pv4fad.forest.pairs import CountConfig, ladder
from pv4fad.forest.shapes import (
    BOTH_SIDES_NORMAL,
    ConditionConfig,
    RandomShape,
    TemplateShape,
)
from pv4fad.forest.validated import ValidatedModel
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon
from pv4fad.protocol.parameters import Mode, NoiseMode

TEMPLATE_FEATURE = "settlement_delay_days"  # what template trees cut below their bank node
SIDES: tuple[Literal["ordering", "beneficiary"], ...] = ("ordering", "beneficiary")
_HEIGHTS = {"template": 3, "random": 4}
_HIGHEST_TEMPLATE = 3  # a bank node and at most two cuts


class TrainingSettings(ValidatedModel):
    """Decides the model and the privacy of a run.  Where it runs, and how fast, is not here."""

    epsilon: str
    """The privacy loss of this run; `none` must be written out and means no noise at all."""
    bound: int = Field(default=1, ge=1)
    """Most weight that one account contributes to all sums together."""
    structure: Literal["template", "random"] = "template"
    trees: int = Field(default=12, ge=1, le=1024)
    height: int | None = Field(default=None, ge=1)
    """Tests on a path; by default 3 for template trees (their most), 4 for random ones."""
    noise: Literal["distributed", "per-bank"] = "distributed"
    honest_banks: int = Field(default=1, ge=1)
    """Distributed noise: how many banks are assumed not to tell their noise to others.

    1 assumes nothing, and costs as much noise as `per-bank`.
    """
    slots: tuple[str, ...] = ()
    """Private slots that the trees may ask about; each bank says what they mean to it."""
    mode: Mode = "sealed"
    seed: int | None = Field(default=None, ge=0)
    """Of tree structure and sampling.  By default it is drawn, and secret like the structure."""

    @field_validator("epsilon", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Any:
        """TOML has numbers; 0.1 there means a tenth, not the binary fraction next to it."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        return epsilon_text(parse_epsilon(value)) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _height_fits(self) -> TrainingSettings:
        if self.structure == "template" and self.tree_height > _HIGHEST_TEMPLATE:
            raise ParameterError(
                f"height {self.height}: template trees have a height of at most "
                f"{_HIGHEST_TEMPLATE}; give less, or structure random"
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

    def forest_config(self) -> ForestConfig:
        """The forest; what others see of it follows from here and not from any data."""
        conditions = BOTH_SIDES_NORMAL + tuple(
            ConditionConfig(side=side, family=slot, sets=(("yes",),))
            for slot in self.slots
            for side in SIDES
        )
        shape: RandomShape | TemplateShape
        if self.structure == "random":
            shape = RandomShape(height=self.tree_height, conditions=conditions)
        else:
            cuts = range(self.tree_height)
            shape = TemplateShape.bank_on_top(conditions, TEMPLATE_FEATURE, cuts)
        return ForestConfig(n_trees=self.trees, shape=shape, slots=self.slots)

    def count_config(self) -> CountConfig:
        """Anomalies are rare: without a ladder every leaf would be labelled 0."""
        return CountConfig(bound=self.bound, label0_rates=ladder(self.trees))


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
