"""What a feature of a row says, for people, in the words of the schema.

Amount 4,200 (usually 300)
Kind: its 4th most common value
earlier claims with this patient: 0 (usually 3)
"""

from __future__ import annotations

from math import isnan

from pv4fad.schema import Schema

_HISTORY = {
    "rows_before": "earlier {rows} with this {side}:",
    "days_since": "days since the last {row} with this {side}:",
    "others_before": "others that this {side} had {rows} with before:",
}


def phrase(schema: Schema, name: str, value: float, usual: float | None = None) -> str:
    """What the value says, and what is usual."""
    words, text = schema.words, name
    if name in schema.rows.categories and not isnan(value):
        return f"{name}: its {_ordinal(int(value) + 1)} most common value"
    if name == "first_dealing" and value == 1:
        return words("first {row} with this {sides}", sides=" and ".join(schema.side_names))
    for side in schema.side_names:
        for feature, meaning in _HISTORY.items():
            if name == f"{side}_{feature}":
                text = words(meaning, side=side)
    return f"{text} {number_text(value)}" + (
        "" if usual is None else f" (usually {number_text(usual)})"
    )


def number_text(value: float) -> str:
    """As people write it: 0.25, 12.3, 59,900."""
    if isnan(value):
        return "missing"
    if abs(value) < 1000:
        return f"{value:.3g}"
    digits = 3 - len(f"{abs(value):.0f}")
    return f"{round(value, digits):,.0f}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"
