"""Features of transactions that the payment network computes from its own rows."""

from pv4fad.payments.features.payment import FEATURE_MEANINGS, FeatureTable, compute_features

__all__ = ["FEATURE_MEANINGS", "FeatureTable", "compute_features"]
