"""The three roles, and the names of the parties that have one of their own."""

from __future__ import annotations

from pv4fad.words import Words

PAYMENT_NETWORK = "payment-network"
AGGREGATOR = "aggregator"
BANK = "bank"  # the role; which banks take part in a run its parameters say
NOT_BANKS = (PAYMENT_NETWORK, AGGREGATOR)  # the names of the other parties


def role_of(name: str) -> str:
    """payment-network, aggregator or bank."""
    return name if name in NOT_BANKS else BANK


def role_text(role: str, words: Words) -> str:
    """A role, as the schema calls it."""
    return {PAYMENT_NETWORK: words.lead, BANK: words.holder}.get(role, role)


def in_words(text: str, words: Words) -> str:
    """A text with names of parties, where the lead is called as the schema does."""
    return text.replace(PAYMENT_NETWORK, words.lead)
