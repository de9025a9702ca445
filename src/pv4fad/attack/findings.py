"""What an attack has found, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError
from scipy.stats import beta, binom

from pv4fad import __version__
from pv4fad.errors import DataError, ParameterError
from pv4fad.files import write_whole
from pv4fad.validated import ValidatedModel

FILE_NAME = "attack.json"
FALSE_ALARM = 1e-6
"""How likely it is, at most, that a claim that holds is said not to."""


NotLead = Literal["holders", "aggregator"]


class Finding(ValidatedModel):
    """One attack: by whom, on what, how well it went."""

    attacker: Literal["lead", "holders", "aggregator"]
    target: str
    """What it wants to know, in words; with places for those of the schema."""
    measure: str
    """What the numbers are."""
    found: float
    guess: float | None = None
    """The same without the run: what the base rate, or what the attacker knew before, gives."""
    allowed: float | None = None
    """The most that the claim allows; None: it says nothing about this."""
    n: int
    """Cases that it was tried on."""
    note: str = ""

    @property
    def who(self) -> str:
        """The attacker, with places for the words of the schema."""
        return {"lead": "{lead}", "holders": "{holder}", "aggregator": "aggregator"}[self.attacker]

    @property
    def within_claim(self) -> bool | None:
        """None where nothing is claimed."""
        return None if self.allowed is None else self.found <= self.allowed


class Attack(ValidatedModel):
    """All findings about a run."""

    format: Literal["pv4fad attack"] = "pv4fad attack"
    version: Literal[1] = 1
    program: str = __version__
    run_id: str
    findings: tuple[Finding, ...]

    @property
    def exceeded(self) -> tuple[Finding, ...]:
        """Where an attacker got more than the claim allows."""
        return tuple(one for one in self.findings if one.within_claim is False)

    def write(self, path: Path) -> None:
        write_whole(path, self.model_dump_json(indent=2) + "\n", private=True)

    @classmethod
    def read(cls, path: Path, run_id: str) -> Self | None:
        """None if there is none, or one about another run."""
        try:
            found = cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValidationError, ParameterError, UnicodeDecodeError):
            raise DataError(f"{path}: damaged, or of another version") from None
        return found if found.run_id == run_id else None


def at_least(successes: int, n: int, confidence: float) -> float:
    """The lower end of the Clopper-Pearson interval of a probability."""
    return 0.0 if successes == 0 else float(beta.ppf(1 - confidence, successes, n - successes + 1))


def at_most(successes: int, n: int, confidence: float) -> float:
    """The upper end."""
    return 1.0 if successes == n else float(beta.ppf(confidence, successes + 1, n - successes))


def most_by_chance(n: int) -> float | None:
    """The share of n throws of a coin that come up right at most, but for a false alarm.

    None: so few can all be right by chance.
    """
    most = int(binom.isf(FALSE_ALARM, n, 0.5))
    return None if most >= n else most / n
