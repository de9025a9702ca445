"""The random decision forest as a scikit-learn classifier, with differential privacy if wanted."""

from pv4fad.sklearn.classifier import RandomDecisionForestClassifier
from pv4fad.sklearn.domains import Categorical, Numeric

__all__ = ["Categorical", "Numeric", "RandomDecisionForestClassifier"]
