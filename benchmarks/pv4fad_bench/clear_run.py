"""A run in the clear: the scores that `pv4fad train` and `pv4fad score` would arrive at.

Cells, evidence, questions and decisions are those of a private run; counts and answers are the
trusted third party's, which a private run equals; noise is drawn as the banks draw it.  Only the
cryptography is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pv4fad.detection.local_scale import HonestSample, LocalScale
from pv4fad.evidence.cells import TrainingPayments
from pv4fad.evidence.classes import (
    CountedSets,
    counted_sets,
    differing_memberships,
    provided_kinds,
)
from pv4fad.evidence.decisions import BatchDecisions
from pv4fad.evidence.judgement import EvidenceRows, Judgement, nothing_known
from pv4fad.evidence.knowledge import Knowledge, own_hazard
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.noise import CountNoise
from pv4fad.evidence.questions import Questions, answers_of
from pv4fad.evidence.strata import AccountHistory
from pv4fad.evidence.trusted import trusted_counts
from pv4fad.forest.pairs import AccountIndex
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.noise import polya_share
from pv4fad_bench.prepared import BANKS, Prepared

Floats = NDArray[np.float64]
Kinds = NDArray[np.int64]

N_KINDS = len(SCHEMA.record.kind_names)
ABSENT = N_KINDS + 1
_KIND_OF_CLASS = np.array([*SCHEMA.atom_of_class("class"), ABSENT])  # the last is read by class -1


@dataclass(frozen=True)
class Release:
    """How the counts of a run are released."""

    epsilon: Epsilon
    honest_banks: int
    sets: CountedSets = "fine"


class ClearRun:
    """One data set; scores for any noise and any records of banks."""

    def __init__(self, data: Prepared, seed: int) -> None:
        self._data = data
        index = AccountIndex(data.key_of, data.bare_of, np.zeros(data.bare_of.max() + 1, np.int64))
        payments = TrainingPayments(index, data.y, data.first_tr_alone, data.ts, data.inside_tr)
        scale = LocalScale(float(data.scale[0]), float(data.scale[1]))
        sample = HonestSample(scale, data.chosen, data.sample_scores)
        self._knowledge, self._counted = Knowledge.of(payments, sample, seed)
        known_account = np.append(data.bare_of, -1)[data.map]
        account = known_account[data.new_key_of]
        history = AccountHistory.of(payments.account, data.y, payments.n_accounts)
        self._rows = EvidenceRows(
            data.alone,
            data.is_first,
            history.strata(account, data.is_first),
            history.hits(account),
            data.new_key_of,
            data.inside_new[data.new_key_of],
        )

    @cached_property
    def kinds(self) -> Kinds:
        """Of the accounts in training."""
        return np.asarray(_KIND_OF_CLASS[self._data.atoms_tr])

    @cached_property
    def new_kinds(self) -> Kinds:
        """Of the accounts to be scored."""
        return np.asarray(_KIND_OF_CLASS[self._data.atoms_new])

    @property
    def alone(self) -> Floats:
        """The payment network's own hazard: local score and own label history."""
        return self._hazard(self._data.alone)

    @property
    def joined(self) -> Floats:
        """The same with the score of a local model that was given the classes of both accounts."""
        return self._hazard(self._data.joined)

    def model(self, kinds: Kinds, release: Release) -> EvidenceModel:
        """From counts of these kinds of the accounts in training, with new noise."""
        provided = provided_kinds("class", N_KINDS)
        sets = counted_sets(release.sets, "class", N_KINDS)
        atoms = np.where(kinds == ABSENT, -1, kinds)  # atom k is kind k
        counts = trusted_counts(self._counted, atoms, sets)
        delta = differing_memberships(sets, len(provided))
        if release.epsilon != "none":
            shares = polya_share(
                Fraction(release.epsilon), delta, release.honest_banks, BANKS * counts.size
            )
            counts = counts + shares.reshape(BANKS, *counts.shape).sum(axis=0)
        noise = CountNoise.of(release.epsilon, delta, BANKS / release.honest_banks)
        return EvidenceModel.of(
            self._knowledge, counts, noise, sets=release.sets, absent="class", n_kinds=N_KINDS
        )

    def decide(self, model: EvidenceModel, kinds: Kinds, alert_share: float) -> BatchDecisions:
        """In one batch; `kinds`: of the accounts to be scored."""
        known = nothing_known(len(kinds), model)
        questions = Questions(Judgement(model, self._rows, alert_share), known)
        for number, asked in enumerate(model.kinds):
            accounts = questions.ask(number)
            questions.take(number, accounts, answers_of(asked, kinds[accounts]))
        return questions.outcome()

    def _hazard(self, scores: NDArray[np.float32]) -> Floats:
        own, rows = self._knowledge, self._rows
        local = own.scale.log_odds(scores)
        return own_hazard(local, own.history, rows.is_first, rows.stratum, rows.hit)
