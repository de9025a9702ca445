"""Features of transactions that the payment network computes from its own rows."""

from pv4fad.payments.features.payment import FEATURE_MEANINGS, compute_features
from pv4fad.tables.features import FeatureTable

__all__ = ["FEATURE_MEANINGS", "FeatureTable", "compute_features"]
