"""A bank's policy: the runs in which it takes part.  It refuses any other, before any work is done.

In `[policy]` of its party.toml, with dashes:

    [policy]
    relies-on = ["bank02", "bank05", "bank07"]
    modes = ["counts"]
    epsilon = 1

The payment network chooses who takes part in a run.  So a number of honest banks alone says little:
with `relies-on`, a run of H honest banks needs H banks of which this one believes that they are.
What a bank spends over all runs is for its ledger to limit.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any, get_args

from pydantic import Field, field_validator

from pv4fad.errors import ParameterError, PolicyError
from pv4fad.privacy.effective import default_honest_banks
from pv4fad.privacy.epsilon import epsilon_text, parse_epsilon
from pv4fad.protocol.parameters import Mode, Name, NoiseMode, RunParameters
from pv4fad.validated import ValidatedModel


class Policy(ValidatedModel):
    """The rules of a bank; by default all runs with noise for half of their banks, or more."""

    relies_on: tuple[Name, ...] | None = None
    """The banks that it relies on to add their noise and keep it to themselves, besides itself.

    A run with fewer than H of these is refused.  By default it relies on any.
    """
    honest_banks: int | None = Field(default=None, ge=1)
    """The largest H, itself included."""
    honest_share: float | None = Field(default=None, gt=0, le=1)
    """The largest H as a share of the banks of a run, rounded down, and at least 1.

    If neither is given, H is at most half of the banks of the run, rounded up.
    """
    modes: tuple[Mode, ...] = Field(default=get_args(Mode), min_length=1)
    """What a run may end with: counts, or the paper's labels, released or sealed."""
    noise: tuple[NoiseMode, ...] = Field(default=get_args(NoiseMode), min_length=1)
    """How noise may be made: distributed, per-bank, none."""
    metered: bool = False
    """Whether it takes part in metered runs only."""
    bound: int | None = Field(default=None, ge=1)
    """The largest contribution bound."""
    epsilon: str | None = None
    """The largest ε of one run."""

    @field_validator("epsilon", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Any:
        """TOML has numbers; 0.1 there means a tenth, not the binary fraction next to it."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            value = epsilon_text(parse_epsilon(value))
            if value in ("0", "none"):
                raise ParameterError("epsilon must be greater than 0, for example 1")
        return value

    def most_honest_banks(self, n_banks: int) -> int:
        """The largest H in a run of so many banks."""
        if self.honest_banks is None and self.honest_share is None:
            return default_honest_banks(n_banks)
        most = n_banks if self.honest_banks is None else min(n_banks, self.honest_banks)
        if self.honest_share is not None:
            most = min(most, max(1, floor(Fraction(str(self.honest_share)) * n_banks)))
        return most

    def require(self, parameters: RunParameters, bank: str) -> None:
        """`PolicyError`, with the rule, if this bank takes no part in such a run."""
        reason = self._problem(parameters, bank)
        if reason is not None:
            raise PolicyError(f"{bank} takes no part in run {parameters.run_id}, by its {reason}")

    def require_answers(self, parameters: RunParameters, bank: str) -> None:
        """`PolicyError` if this bank answers nothing in such a run, which it may have joined under
        an earlier policy: what was released remains released, and questions can still be refused.
        """
        reason = self._not_metered(parameters)
        if reason is not None:
            raise PolicyError(f"{bank} answers nothing in run {parameters.run_id}, by its {reason}")

    def _not_metered(self, run: RunParameters) -> str | None:
        if self.metered and not run.metered:
            return "policy on metered: the run is not metered"
        return None

    def _problem(self, run: RunParameters, bank: str) -> str | None:
        if run.mode not in self.modes:
            return f"policy on modes ({', '.join(self.modes)}): the run has mode {run.mode}"
        if run.noise not in self.noise:
            return f"policy on noise ({', '.join(self.noise)}): the run has noise {run.noise}"
        if (reason := self._not_metered(run)) is not None:
            return reason
        if self.bound is not None and run.bound > self.bound:
            return f"policy on bound (at most {self.bound}): the run has bound {run.bound}"
        if self.epsilon is not None:
            most, wanted = parse_epsilon(self.epsilon), run.exact_epsilon
            if isinstance(wanted, str) or isinstance(most, str) or wanted > most:
                return f"policy on epsilon (at most {self.epsilon}): the run has {run.epsilon}"
        if run.noise == "distributed":
            return self._problem_of_honest_banks(run, bank)
        return None

    def _problem_of_honest_banks(self, run: RunParameters, bank: str) -> str | None:
        h, most = run.honest_banks, self.most_honest_banks(len(run.banks))
        if h > most:
            return (
                f"policy on honest-banks (at most {most} of {len(run.banks)}, itself included):"
                f" the run relies on {h}, and would need less noise of each"
            )
        if self.relies_on is not None:
            relied = sorted(({bank} | set(self.relies_on)) & set(run.banks))
            if len(relied) < h:
                return (
                    f"policy on relies-on: the run relies on {h} for honest noise, and of those"
                    f" that it relies on only {', '.join(relied)} take part"
                )
        return None
