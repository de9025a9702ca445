"""ε as an exact amount: a fraction, or `none` for a release without noise (no bound at all)."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import isinf
from typing import Literal

from pv4fad.errors import ParameterError

Epsilon = Fraction | Literal["none"]

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,18})?|[0-9]{1,18}/[1-9][0-9]{0,17}")
_DIGITS = 18


def parse_epsilon(text: str) -> Epsilon:
    """`none`, or an exact number: 1, 0.25, 1/3."""
    if text == "none":
        return "none"
    if not _NUMBER.fullmatch(text):
        raise ParameterError(f"ε {text[:40]!a}: expected a number such as 0.5 or 1/3, or none")
    return Fraction(text)


def epsilon_text(epsilon: Epsilon) -> str:
    """The exact amount as people write it: a decimal where there is one."""
    if isinstance(epsilon, str):
        return epsilon
    scaled = epsilon * 10**_DIGITS
    if scaled.denominator != 1:
        return str(epsilon)
    whole, rest = divmod(scaled.numerator, 10**_DIGITS)
    return f"{whole}.{rest:0{_DIGITS}d}".rstrip("0").rstrip(".")


def upper_text(bound: float, digits: int) -> str:
    """A bound with so many decimals, rounded up so that it still holds; `none` if infinite."""
    if isinf(bound):
        return "none"
    return str(Decimal(str(bound)).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING))
