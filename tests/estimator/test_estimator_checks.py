"""The classifier is a scikit-learn estimator, by scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from pv4fad.estimator import Numeric, RandomDecisionForestClassifier

# Without ε all checks.  With ε those that scikit-learn has for estimators that are random by
# nature; its data has few rows, so little noise, and its values lie within the declared range.
FORESTS = {
    "log-odds": RandomDecisionForestClassifier(),
    "majority": RandomDecisionForestClassifier(vote="majority"),
    "private": RandomDecisionForestClassifier(epsilon=500, domains=Numeric(-20, 20)),
}
# Not `parametrize_with_checks`: it hands pytest an iterator, which pytest 9 warns about.
CHECKS = [
    pytest.param(estimator, check, id=f"{name}-{check.func.__name__}-{number}")
    for name, forest in FORESTS.items()
    for number, (estimator, check) in enumerate(estimator_checks_generator(forest))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
