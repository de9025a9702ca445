"""The paper's model as `--model paper` has it by default: twelve random trees of height 6.

One payment in a thousand is anomalous.  Three things let random trees find it all the same, none of
them from a bank's data:

    under-sampling   tree t keeps label-0 pairs at its own rate, from 30 times the share of
                     anomalies down to that share; without it every leaf is labelled 0
    features         splits test what a message says about itself and its sender's habits
                     (`MESSAGE_FEATURES`); drawn among all features, most splits would tell nothing
    conditions       the beneficiary's is listed eight times, the ordering account's twice.  A path
                     asks about one side only, so with even odds about half of the trees ask about
                     a given account, and its record alone could hardly ever turn a majority

An account teaches one tree, so many or high trees have leaves that no account taught.
docs/understand/forest.md says what this reaches.
"""

from __future__ import annotations

from pv4fad.forest.config import BOTH_SIDES_NORMAL, ConditionConfig, ForestConfig, RandomShape
from pv4fad.forest.pairs import CountConfig, undersampling_rates

TREES = 12
HEIGHT = 6
BOUND = 1
MESSAGE_FEATURES = (
    "settlement_delay_days",
    "sender_delay_share",
    "currency_mismatch",
    "log_amount",
    "log_amount_ratio",
    "amount_z",
    "hour",
    "sender_hour_share",
    "sender_currency_share",
    "sender_exchange_share",
    "corridor_share",
)
_LISTED = {"ordering": 2, "beneficiary": 8}  # times: ten of 21 possible tests ask a bank


def paper_forest(
    n_trees: int = TREES, height: int = HEIGHT, slots: tuple[str, ...] = ()
) -> ForestConfig:
    """The trees; `slots`: private slots that they ask about as well."""
    of_slots = tuple(
        ConditionConfig(side=condition.side, family=slot, sets=(("yes",),))
        for slot in slots
        for condition in BOTH_SIDES_NORMAL
    )
    listed = (
        condition
        for condition in BOTH_SIDES_NORMAL + of_slots
        for _ in range(_LISTED[condition.side])
    )
    shape = RandomShape(height=height, conditions=tuple(listed), features=MESSAGE_FEATURES)
    return ForestConfig(n_trees=n_trees, shape=shape, slots=slots)


def paper_counts(anomaly_share: float, n_trees: int = TREES, bound: int = BOUND) -> CountConfig:
    """How pairs count.  Weights stay 1: a heavier label 1 would need as much more noise.

    `anomaly_share`: of the payment network's own training payments.
    """
    highest, lowest = (min(1.0, max(times * anomaly_share, 1e-6)) for times in (30, 1))
    rates = undersampling_rates(n_trees, highest, lowest)
    return CountConfig(bound=bound, label0_rates=rates)
