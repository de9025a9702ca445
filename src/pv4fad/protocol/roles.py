"""The three roles, and the names of the parties that have one of their own."""

from __future__ import annotations

PAYMENT_NETWORK = "payment-network"
AGGREGATOR = "aggregator"
BANK = "bank"  # the role; which banks take part in a run its parameters say
NOT_BANKS = (PAYMENT_NETWORK, AGGREGATOR)  # the names of the other parties


def role_of(name: str) -> str:
    """payment-network, aggregator or bank."""
    return name if name in NOT_BANKS else BANK
