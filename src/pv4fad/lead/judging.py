"""How the payment network judges new payments: what it asks, and what it makes of the answers.

    evidence              the default model: rounds of questions, one for each kind of account
    paper, decisions      the paper's model with released labels: rounds about sets of flags
    paper, votes          the paper's model with sealed labels: a vote total per side

A judge sees the payment network's own data and the answers.  The trusted third party uses the same
judges with answers from the clear (`verification`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.local_model import local_reasons
from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import ABSENT, Absent, provided_classes
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.questions import UNKNOWN, Questions, complete
from pv4fad.forest.decisions import NOTHING, account_classes, decision_sets
from pv4fad.forest.reasons import reasons
from pv4fad.forest.votes import green_votes, predictions
from pv4fad.lead.new_payments import NewPayments
from pv4fad.lead.own_model import OwnModel
from pv4fad.parties.network_stages import Trees
from pv4fad.parties.scoring_tables import AskedSet
from pv4fad.run.scoring_record import Learned

_MOST_ROUNDS = 7


class Judge(Protocol):
    """One scoring of some payments, by questions."""

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        """One for each round."""

    def begin(self, known: NDArray[np.int8]) -> None:
        """`known`: (accounts, sets), the answers of earlier scorings; -1 for none."""

    def ask(self, number: int) -> NDArray[np.int64]:
        """The accounts to ask about in this round."""

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        """Their answers."""

    def table(self) -> pl.DataFrame:
        """The predictions, after the last round."""

    def learned(self) -> Learned:
        """After the last round."""


@dataclass
class EvidenceJudge:
    """The default model."""

    own: OwnModel = field(repr=False)
    model: EvidenceModel = field(repr=False)
    absent: Absent
    payments: NewPayments = field(repr=False)
    directory: Mapping[str, str] = field(repr=False)
    alert_share: float

    def __post_init__(self) -> None:
        self._rows = self.payments.evidence_rows(self.own.local, self.directory)

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        provided = provided_classes(self.absent)
        return tuple(
            AskedSet(
                tuple(provided.index(one) for one in classes if one != ABSENT), ABSENT in classes
            )
            for classes in self.model.kinds
        )

    def begin(self, known: NDArray[np.int8]) -> None:
        self._questions = Questions(self.model, self._rows, complete(known), self.alert_share)

    def ask(self, number: int) -> NDArray[np.int64]:
        return self._questions.ask(number)

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        self._questions.take(number, accounts, bits)

    def table(self) -> pl.DataFrame:
        found = self._questions.outcome()
        return prediction_table(
            self.payments.message_ids,
            score=found.score,
            alert=found.alert,
            level=found.level,
            local_score=found.own_score,
            reasons=self._reasons(found.alert, found.bank_alert),
        )

    def learned(self) -> Learned:
        found = self._questions.outcome()
        return Learned(
            payments=len(self.payments),
            payments_asked=found.n_payments_asked,
            accounts=len(self.payments.keys),
            accounts_asked=found.n_accounts_asked,
            alerts=found.n_alerts,
            bank_alerts=found.n_bank_alerts,
        )

    def _reasons(self, alert: NDArray[np.bool_], by_bank: NDArray[np.bool_]) -> list[str | None]:
        """Of alerts only."""
        texts: list[str | None] = [None] * len(alert)
        rows = np.flatnonzero(alert)
        own = local_reasons(self.own.local, self.payments.features.values[rows], self.own.usual)
        hit = np.asarray(self._rows.hit.any(axis=1))
        for row, found in zip(rows, own, strict=True):
            history = ["an account with a confirmed anomaly"] if hit[row] else []
            bank = [BANKS_RECORD] if by_bank[row] else []
            texts[row] = "; ".join([*bank, *history, *found])
        return texts


BANKS_RECORD = "the bank's record"


@dataclass
class DecisionJudge:
    """The paper's model with released labels: one bit where it can change the majority."""

    trees: Trees = field(repr=False)
    red_labels: NDArray[np.int8] = field(repr=False)  # (groups, sets + 1)
    payments: NewPayments = field(repr=False)
    askable: NDArray[np.bool_] = field(repr=False)  # (payments, 2)

    def __post_init__(self) -> None:
        forest = self.trees.forest
        self._codes = forest.route(self.payments.features.values)
        self._decisions = decision_sets(
            forest, self._codes, self.red_labels, self.trees.green_labels
        )
        numbers = {one: number for number, one in enumerate(self.sets)}
        number_of = [numbers[AskedSet(*one)] for one in self._decisions.sets] + [NOTHING]
        # The last entry is read where nothing is asked.
        self._set_of = np.where(self.askable, np.array(number_of)[self._decisions.set_of], NOTHING)

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        """All that could ever be asked about, so that the number of rounds says nothing."""
        _, *others = account_classes(self.trees.forest)
        n_rounds = 2 ** len(others) - 1
        if n_rounds > _MOST_ROUNDS:
            raise ParameterError(
                f"scoring by decisions: {len(others) + 1} classes of flags need {n_rounds} rounds,"
                f" more than {_MOST_ROUNDS}; score by votes"
            )
        return tuple(_union(others, mask) for mask in range(1, n_rounds + 1))

    def begin(self, known: NDArray[np.int8]) -> None:
        self._known = known.copy()
        self._asked = np.zeros(len(known), np.bool_)

    def ask(self, number: int) -> NDArray[np.int64]:
        wanted = self.payments.key_of[self._set_of == number]
        return np.unique(wanted[self._known[wanted, number] == UNKNOWN])

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        self._known[accounts, number] = bits
        self._asked[accounts] = True

    def table(self) -> pl.DataFrame:
        alone, by_bank = self._decisions.alert_alone, self._alerts_by_bank()
        alert, share = alone | by_bank, self._decisions.share_alone
        own = [
            f"{BANKS_RECORD}; {one}" if bank else one
            for one, bank in zip(reasons(self.trees.forest, self._codes), by_bank, strict=True)
        ]
        return prediction_table(
            self.payments.message_ids,
            score=(alert + share) / 2,
            alert=alert,
            level=alert.astype(np.int8),
            local_score=share,
            reasons=[one if flagged else None for one, flagged in zip(own, alert, strict=True)],
        )

    def learned(self) -> Learned:
        return Learned(
            payments=len(self.payments),
            payments_asked=int((self._set_of != NOTHING).any(axis=1).sum()),
            accounts=len(self.payments.keys),
            accounts_asked=int(self._asked.sum()),
            alerts=int((self._decisions.alert_alone | self._alerts_by_bank()).sum()),
            bank_alerts=int(self._alerts_by_bank().sum()),
        )

    def _alerts_by_bank(self) -> NDArray[np.bool_]:
        bits = self._known[self.payments.key_of, np.maximum(self._set_of, 0)] == 1
        return (
            self._decisions.alerts(bits & (self._set_of != NOTHING)) & ~self._decisions.alert_alone
        )


def _union(classes: Sequence[tuple[tuple[int, ...], bool]], mask: int) -> AskedSet:
    chosen = [one for number, one in enumerate(classes) if mask >> number & 1]
    atoms = sorted(atom for atoms, _ in chosen for atom in atoms)
    return AskedSet(tuple(atoms), any(absent for _, absent in chosen))


def prediction_table(
    message_ids: pl.Series,
    *,
    score: NDArray[np.float64],
    alert: NDArray[np.bool_],
    level: NDArray[np.int8],
    local_score: NDArray[np.float64],
    reasons: Sequence[str | None],
) -> pl.DataFrame:
    """One row per payment; nothing but these columns depends on a bank."""
    return pl.DataFrame(
        {
            "MessageId": message_ids,
            "Score": score,
            "Alert": alert.astype(np.int8),
            "Level": level,
            "LocalScore": local_score,
            "Reasons": pl.Series(reasons, dtype=pl.String),
        }
    )


VOTES = ("GreenVotes", "OrderingVotes", "BeneficiaryVotes")


def vote_table(
    payments: NewPayments, trees: Trees, codes: NDArray[np.int32], sides: NDArray[np.int64]
) -> pl.DataFrame:
    """The paper's output: share of votes, majority, confidence; and the votes themselves."""
    green = green_votes(codes, trees.green_labels)
    found = predictions(green + sides.sum(axis=1), trees.forest.sizes.n_trees)
    return pl.DataFrame(
        {
            "MessageId": payments.message_ids,
            "Score": found.score,
            "Label": found.label,
            "Confidence": found.confidence,
            **dict(zip(VOTES, (green, *sides.T), strict=True)),
            "Reasons": reasons(trees.forest, codes),
        }
    )
