"""What a feature of a payment says, for people: the reasons of an alert, and what is unusual.

    phrase("account_pair_seen", 0)   first payment between these accounts
    phrase("log_amount", 11)         amount: 59,900

A phrase is what the feature means (`FEATURE_MEANINGS`) and its value, shown as people count:
amounts instead of logarithms, hours instead of recency.
"""

from __future__ import annotations

from math import exp, expm1

from pv4fad.payments.features.payment import FEATURE_MEANINGS
from pv4fad.tables.phrases import number_text

OTHER_MEANINGS = {  # where the value shown is not the feature itself, or less can be said
    "cycles_closed": "cycles of three accounts that this payment closes",
    "amount_z": "standard deviations above the sender's usual amount in this currency",
    "log_amount": "amount",
    "log_amount_ratio": "settlement amount over instructed amount",
    "pair_recency": "last payment between these accounts",
    "ordering_sent_recency": "last payment of the ordering account",
    "ordering_received_recency": "last payment to the ordering account",
    "beneficiary_received_recency": "last payment to the beneficiary account",
}
AT_ZERO = {
    "currency_mismatch": "settled in the currency it was instructed in",
    "ordering_name_missing": "the ordering account has a name",
    "beneficiary_name_missing": "the beneficiary account has a name",
    "account_pair_seen": "first payment between these accounts",
    "pair_recency": "first payment between these accounts",
    "ordering_account_seen": "first payment of the ordering account",
    "ordering_sent_recency": "first payment of the ordering account",
    "ordering_received_recency": "the ordering account was never paid before",
    "beneficiary_account_seen": "first payment to the beneficiary account",
    "beneficiary_received_recency": "first payment to the beneficiary account",
    "sender_seen": "first message of the sender",
    "receiver_seen": "first message to the receiver",
}
AT_ONE = {
    "currency_mismatch": "settled in another currency than instructed",
    "ordering_name_missing": "the ordering account has no name",
    "beneficiary_name_missing": "the beneficiary account has no name",
}


def phrase(name: str, value: float, usual: float | None = None) -> str:
    """What the value says, and what is usual."""
    for at, phrases in ((0, AT_ZERO), (1, AT_ONE)):
        if value == at and name in phrases:
            return phrases[name]
    text = f"{OTHER_MEANINGS.get(name, FEATURE_MEANINGS[name])}: {_shown(name, value)}"
    return text if usual is None else f"{text} (usually {_shown(name, usual)})"


def _shown(name: str, value: float) -> str:
    if name.endswith("_share"):
        return f"{number_text(100 * value)} %"
    if name.startswith("log_"):
        return number_text(exp(value))
    if name.endswith(("_amount", "_amount_1d")):  # log(1 + sum)
        return number_text(expm1(value))
    if name.endswith("_recency"):  # 1 / (1 + hours)
        return "never" if value <= 0 else f"{number_text(1 / value - 1)} hours before"
    return number_text(value)
