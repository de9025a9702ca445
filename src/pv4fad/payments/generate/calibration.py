"""The figures the generator is calibrated to, and the few that had to be chosen.

*Published* figures are facts reported about the original data (`facts` gives each beside what was
generated).  *Chosen* ones fill in what was not published.  How far normal and anomalous messages
overlap was chosen so that boosting reaches about the average precision published for the original
(docs/evidence/calibration.md); nothing here is to be tuned for a model beyond that.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from pv4fad.payments.schema import FLAG_CODES, NO_FLAG

# --- Published: sizes ---------------------------------------------------------------------------
_MESSAGES = 4_691_725 + 705_108
_ACCOUNTS = 527_503
ANOMALY_RATE = 4_900 / 4_691_725
ACCOUNTS_PER_MESSAGE = _ACCOUNTS / _MESSAGES
ORDERING_PER_ACCOUNT = 329_823 / _ACCOUNTS
BENEFICIARY_PER_ACCOUNT = 228_006 / _ACCOUNTS

# 23 days of January; 20 of 23 days are 87.0 % of the time, 4.69 of 5.40 million rows are 86.9 %.
PERIOD_START = dt.datetime(2022, 1, 1)  # the format has no time zone
PERIOD_DAYS, TRAINING_DAYS = 23, 20

# --- Published: traffic -------------------------------------------------------------------------
# 16 senders and 27 receivers for 25 banks: the two that are not banks are `N_OUTSIDERS` below.
SENDERS_PER_BANK = 14 / 25
# The first seven are published; the tail adds up to the rest.
SENDER_SHARES = (41.8, 15.0, 11.3, 11.0, 7.7, 5.8, 1.7, 1.4, 1.2, 1.0, 0.8, 0.6, 0.4, 0.3)
MAJOR_CURRENCIES = ("EUR", "USD", "GBP", "JPY")
CURRENCY_SHARES = (50.0, 32.0, 16.0, 1.6)
MINUTES_BETWEEN_LEGS = 60

# --- Published: flags ---------------------------------------------------------------------------
FLAGGED_PER_CODE = (50, 64)  # of 527,503 accounts
FLAGGED_PER_CODE_BASE = _ACCOUNTS
MIN_FLAGGED_PER_CODE = 3  # small data sets have more flags than the original, or some codes none

# --- Chosen -------------------------------------------------------------------------------------
N_OUTSIDERS = 2  # institutions without accounts, hardly ever seen: the 'unseen' senders/receivers
LEG_SHARES = (0.52, 0.36, 0.12)  # payments of 1, 2, 3 legs; 1.6 on average
PAYMENTS_PER_RELATION = 3.0  # how often one account pays the same other account
MINOR_CURRENCIES = ("CHF", "CAD", "AUD", "SEK", "NOK", "SGD", "HKD", "ZAR")
EXCHANGE_RATES = {  # units for one euro
    "EUR": 1.0, "USD": 1.13, "GBP": 0.84, "JPY": 130.0, "CHF": 1.04, "CAD": 1.43, "AUD": 1.58,
    "SEK": 10.3, "NOK": 10.0, "SGD": 1.53, "HKD": 8.8, "ZAR": 17.5,
}  # fmt: skip
WARNING_FLAGS = tuple(code for code in FLAG_CODES if code != NO_FLAG)
# Recently opened, name mismatch, under monitoring: accounts with such flags do go on trading.
MILD_FLAGS = ("03", "04", "05")
SEVERE_FLAGS = tuple(code for code in WARNING_FLAGS if code not in MILD_FLAGS)


class AnomalyKind(StrEnum):
    """The anomaly kinds, as they stand in the side file."""

    AMOUNT = "unusual_amount"
    CURRENCY = "unusual_currency"
    CORRIDOR = "unusual_corridor"
    HOUR = "unusual_hour"
    SETTLEMENT_DATE = "settlement_date"
    UNSEEN_INSTITUTION = "unseen_institution"
    IDENTITY = "name_or_address"
    FLAGGED_BENEFICIARY = "flagged_beneficiary"
    ABSENT_BENEFICIARY = "absent_beneficiary"
    ABSENT_ORDERING = "absent_ordering"


# Of the anomalous messages.  Published for the three that a bank sees; the others were not, so they
# are given roughly even parts, fewer where the perturbed thing itself is rarer.
KIND_SHARES = {
    AnomalyKind.FLAGGED_BENEFICIARY: 800 / 4900,
    AnomalyKind.ABSENT_BENEFICIARY: 111 / 4900,
    AnomalyKind.ABSENT_ORDERING: 103 / 4900,
    AnomalyKind.AMOUNT: 0.17,
    AnomalyKind.SETTLEMENT_DATE: 0.17,
    AnomalyKind.CURRENCY: 0.15,
    AnomalyKind.HOUR: 0.12,
    AnomalyKind.CORRIDOR: 0.10,
    AnomalyKind.IDENTITY: 0.05,
    AnomalyKind.UNSEEN_INSTITUTION: 1.0 - 1014 / 4900 - 0.76,
}
BANK_KINDS = (
    AnomalyKind.FLAGGED_BENEFICIARY,
    AnomalyKind.ABSENT_BENEFICIARY,
    AnomalyKind.ABSENT_ORDERING,
)


@dataclass(frozen=True)
class Overlap:
    """What distinguishes the difficulties: how far normal and anomalous messages overlap."""

    # Normal messages that look like an anomaly of a kind, for each anomaly of that kind.
    look_alikes: float
    # Share of normal traffic that touches flagged accounts, and of that with a mild flag.
    flagged_normal_share: float
    flagged_normal_mild: float
    # Share of the anomalies of a bank-visible kind whose account is an ordinary, unflagged one.
    unflagged_anomalies: float
    # Unusual amounts: least standard deviations away, mean excess over it.
    amount_least_z: float
    amount_mean_excess_z: float
    # Unusual hours are those with less than this share of the sender's payments.
    hour_share_below: float
    # Unusual corridors have less than this share of the sender's messages (0: never used).
    corridor_share_below: float
    # Settlement dates: least days ahead, mean further days.
    delay_least_days: int
    delay_mean_excess_days: float
    # Share of unusual currencies that are minor ones; and whether look-alikes may use minor ones.
    minor_currency_share: float
    look_alikes_use_minor_currencies: bool
    # Share of normal payments that are settled in another currency than instructed.
    exchanged_share: float


CHALLENGE_OVERLAP = Overlap(
    look_alikes=0.25,
    flagged_normal_share=0.0,
    flagged_normal_mild=0.0,
    unflagged_anomalies=0.0,
    amount_least_z=3.5,
    amount_mean_excess_z=1.5,
    hour_share_below=0.0003,
    corridor_share_below=0.0,
    delay_least_days=3,
    delay_mean_excess_days=4.0,
    minor_currency_share=0.6,
    look_alikes_use_minor_currencies=False,
    exchanged_share=0.001,
)
HARD_OVERLAP = Overlap(
    look_alikes=0.4,
    flagged_normal_share=0.002,
    flagged_normal_mild=0.8,
    unflagged_anomalies=0.2,
    amount_least_z=3.25,
    amount_mean_excess_z=1.5,
    hour_share_below=0.0006,
    corridor_share_below=0.001,
    delay_least_days=2,
    delay_mean_excess_days=5.0,
    minor_currency_share=0.6,
    look_alikes_use_minor_currencies=True,
    exchanged_share=0.002,
)
