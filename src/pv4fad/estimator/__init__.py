"""The random decision forest as a scikit-learn classifier, with differential privacy if wanted."""

from pv4fad.estimator.classifier import RandomDecisionForestClassifier
from pv4fad.estimator.domains import Categorical, Numeric

__all__ = ["Categorical", "Numeric", "RandomDecisionForestClassifier"]
