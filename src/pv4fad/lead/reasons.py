"""What a feature of the lead's own data says, for people."""

from __future__ import annotations

from pv4fad.payments.features import FEATURE_MEANINGS
from pv4fad.payments.features import phrases as payment_phrases
from pv4fad.schema import Schema
from pv4fad.tables import phrases


def feature_text(schema: Schema, name: str, value: float, usual: float | None = None) -> str:
    """Its value, and what is usual."""
    if schema.format == "payments" and name in FEATURE_MEANINGS:
        return payment_phrases.phrase(name, value, usual)
    return phrases.phrase(schema, name, value, usual)
