"""`RandomDecisionForestClassifier`: the scikit-learn estimator.

What is released with ε: the noisy counts of every class in every leaf of every tree (`counts_`),
with discrete Laplace noise of scale n_trees/ε on each.  One row, added or removed, moves them by
n_trees in L1 (`trees.py`), so the release is ε-differentially private.  Everything else that a
fitted forest keeps comes from these counts and from what is public: parameters, declared domains,
classes.

Every tree learns from all rows, with ε/n_trees each.  Dealing the rows out to the trees with ε each
gives counts that stand out from the noise just as far, but adds the chance of the deal.

`random_state` determines the structure, never the noise: noise that can be drawn again can be
subtracted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import exp, expm1
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pv4fad.errors import DataError, ParameterError
from pv4fad.estimator.domains import (
    Declared,
    Domain,
    declared_domains,
    in_declared_order,
    measured_domain,
)
from pv4fad.estimator.evidence import OVERLAP, class_totals, leaf_evidence, times_asked
from pv4fad.estimator.trees import Codes, draw_trees, leaf_counts
from pv4fad.privacy.noise import MAX_EPSILON, MAX_SCALE, discrete_laplace

MAX_DEPTH = 16  # 65,536 leaves; with noise on each, more only cost time


class RandomDecisionForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A forest of random trees over numeric and categorical features, ε-private if asked.

    n_trees       ε is shared among them
    max_depth     levels; a tree has at most 2^max_depth leaves
    epsilon       None: no noise, no privacy.  Otherwise `domains` must be declared
    domains       `Numeric(low, high)` or `Categorical(values)`: one for all features, a sequence
                  in their order, or a mapping by the names of the columns of a polars or pandas
                  table.  Without ε they may be left to be measured
    classes       None: those of `y`.  With ε the set of classes is public either way
    vote          "log_odds": sum of the evidence of all trees; "majority": one vote per tree
    max_branches  of one test
    random_state  of the structure; the noise comes from the operating system

    Attributes: `classes_`, `domains_`, `trees_`, `counts_` (what was released), `n_features_in_`.
    """

    def __init__(
        self,
        n_trees: int = 20,
        max_depth: int = 4,
        *,
        epsilon: float | Fraction | None = None,
        domains: Declared | Sequence[Declared] | Mapping[str, Declared] | None = None,
        classes: Sequence[Any] | None = None,
        vote: Literal["majority", "log_odds"] = "log_odds",
        max_branches: int = 8,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.epsilon = epsilon
        self.domains = domains
        self.classes = classes
        self.vote = vote
        self.max_branches = max_branches
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Draw the trees, count, add noise; nothing of the data stays but noisy counts."""
        epsilon = self._checked_parameters()
        rows, target = validate_data(self, self._table(X), y, dtype=None)
        check_classification_targets(target)
        self.classes_, label = self._classes_and_labels(target)
        self.domains_ = self._domains_of(rows)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        self.trees_ = draw_trees(
            self.domains_, self.n_trees, self.max_depth, self.max_branches, rng
        )
        counts = leaf_counts(self.trees_, self._codes(rows), label, len(self.classes_))
        self.counts_ = counts if epsilon is None else _noisy(counts, epsilon)
        self._score_leaves(0.0 if epsilon is None else _noise_variance(epsilon, self.n_trees))
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[best]
        return predicted

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class; with majority votes its share of the trees."""
        check_is_fitted(self)
        rows = validate_data(self, self._table(X), dtype=None, reset=False)
        codes = self._codes(rows)
        total = np.zeros((len(rows), len(self.classes_)))
        for tree, score in zip(self.trees_, self._leaf_scores, strict=True):
            total += score[tree.leaves(codes, len(rows))]
        if self._votes:
            return total / len(self.trees_)
        probability: NDArray[np.float64] = softmax(total * self._weight + self._log_prior, axis=1)
        return probability

    def _score_leaves(self, noise_variance: float) -> None:
        """What a row gets for each leaf it falls into: evidence, or a vote."""
        totals = class_totals(self.counts_, noise_variance)
        self._log_prior = np.log(totals / totals.sum())
        repeats = times_asked(self.trees_)
        self._weight = OVERLAP / repeats
        self._votes = self.vote == "majority"  # as fitted, whatever is set later
        if self._votes:
            one_vote = np.eye(len(self.classes_))
            self._leaf_scores = [one_vote[count.argmax(axis=1)] for count in self.counts_]
        else:
            self._leaf_scores = [
                leaf_evidence(tree, count, totals, noise_variance / repeats)
                for tree, count in zip(self.trees_, self.counts_, strict=True)
            ]

    def _checked_parameters(self) -> Fraction | None:
        for name, most in (("n_trees", 10**6), ("max_depth", MAX_DEPTH)):
            if not 1 <= getattr(self, name) <= most:
                raise ParameterError(f"{name} must be from 1 to {most}")
        if self.max_branches < 2:
            raise ParameterError("max_branches must be at least 2")
        if self.vote not in ("majority", "log_odds"):
            raise ParameterError(f"vote must be 'majority' or 'log_odds', not {self.vote!r}")
        if self.epsilon is None:
            return None
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, Real):
            raise ParameterError(f"epsilon must be a number or None, not {self.epsilon!r}")
        if not 0 < self.epsilon <= MAX_EPSILON:
            raise ParameterError(f"epsilon must be above 0 and at most {MAX_EPSILON}, or None")
        # The decimal number that was written, not the binary one next to it.
        epsilon = Fraction(str(self.epsilon))
        if self.n_trees > MAX_SCALE * epsilon:
            raise ParameterError(
                f"n_trees / epsilon is above {MAX_SCALE}: the noise would drown every count; "
                "raise epsilon or lower n_trees"
            )
        return epsilon

    def _table(self, X: Any) -> Any:  # noqa: N803
        return in_declared_order(X, self.domains) if isinstance(self.domains, Mapping) else X

    def _domains_of(self, rows: NDArray[Any]) -> tuple[Domain, ...]:
        n_features = rows.shape[1]
        if self.domains is not None:
            return declared_domains(self.domains, n_features)
        if self.epsilon is not None:
            raise ParameterError(
                "with epsilon the domains of all features must be declared: domains=[Numeric(low, "
                "high), Categorical(values), ...]. Measured from the data, they would reveal it"
            )
        return tuple(measured_domain(rows[:, feature]) for feature in range(n_features))

    def _classes_and_labels(self, target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        if self.classes is None:
            found, label = np.unique(target, return_inverse=True)
            return found, label
        classes = np.unique(np.asarray(self.classes))
        if not len(classes):
            raise ParameterError("classes must name one class at least, or be None")
        label = np.minimum(np.searchsorted(classes, target), len(classes) - 1)
        if not np.array_equal(classes[label], target):
            raise DataError("y has a class that is not among the declared classes")
        return classes, label

    def _codes(self, rows: NDArray[Any]) -> Codes:
        codes = []
        for feature, domain in enumerate(self.domains_):
            try:
                codes.append(domain.encode(rows[:, feature]))
            except DataError as error:
                raise DataError(f"feature {feature}: {error}") from None
        return codes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = self.epsilon is not None
        return tags


def _noisy(counts: list[NDArray[np.int64]], epsilon: Fraction) -> list[NDArray[np.int64]]:
    """Every count with noise of its own, all drawn in one batch."""
    ends = np.cumsum([count.size for count in counts])
    noise = discrete_laplace(epsilon, len(counts), int(ends[-1]))
    parts = np.split(noise, ends[:-1])
    return [count + part.reshape(count.shape) for count, part in zip(counts, parts, strict=True)]


def _noise_variance(epsilon: Fraction, n_trees: int) -> float:
    """Of discrete Laplace noise with α = exp(−ε/n_trees): 2α / (1−α)²."""
    rate = float(epsilon / n_trees)
    return 2 * exp(-rate) / expm1(-rate) ** 2
