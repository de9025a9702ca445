"""A decision with all answers is a function of the payment and of the kinds of its accounts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.evidence_cases import by_kind, classes, model, rows

from pv4fad.evidence.judgement import Judgement, complete, nothing_known
from pv4fad.evidence.questions import answers_of

SEEDS = st.integers(0, 10_000)
SHARES = st.sampled_from([0.01, 0.05, 0.2])


def trusted(one, payments, truth, share):
    """Somebody who sees the kind of every account: alert, level, score."""
    own, threshold = one.knowledge, one.threshold(share)
    hazard = np.log1p(np.exp(own.scale.offset + own.scale.slope * payments.local_scores))
    hazard = hazard + 0.2 * payments.hit.sum(axis=1)

    def level(h):
        score = 1 - np.exp(-h)
        return (h >= threshold) * (1 + (score >= 0.5) + (score >= 0.9))

    adds = np.log1p(np.exp(by_kind(one)))
    total, raised = hazard.copy(), np.zeros(len(hazard), np.bool_)
    for side, account in enumerate(payments.account.T):
        kind = adds[side, payments.is_first.astype(int), payments.stratum[:, side], truth[account]]
        raises = payments.askable[:, side] & (level(hazard + kind) > level(hazard))
        total, raised = total + raises * kind, raised | raises
    alert = raised | (hazard >= threshold)
    return alert, np.where(alert, level(np.maximum(total, threshold)), 0), 1 - np.exp(-total)


def all_answered(one, judgement, truth, known):
    """All that is wanted, at once, by a trusted third party; and what was asked."""
    wanted = judgement.wanted(known)
    asked = {
        (int(judgement.account[row, side]), int(kind))
        for row, side, kind in np.argwhere(wanted).tolist()
    }
    known = known.copy()
    for account, kind in asked:
        known[account, kind] = answers_of(one.kinds[kind], truth[[account]])[0]
    return complete(known), asked


@given(SEEDS, SHARES)
@settings(max_examples=40, deadline=None)
def test_decisions_are_those_of_somebody_who_sees_all_kinds(seed, share):
    one, payments, truth = model(seed), rows(seed), classes(seed)
    judgement = Judgement(one, payments, share)
    known, _ = all_answered(one, judgement, truth, nothing_known(80, one))
    found = judgement.decisions(known)
    alert, level, score = trusted(one, payments, truth, share)
    assert np.array_equal(found.alert, alert)
    assert np.array_equal(found.level, level)
    assert np.allclose(found.score, score, rtol=1e-6)
    assert not judgement.wanted(known).any()


@given(SEEDS, SHARES)
@settings(max_examples=25, deadline=None)
def test_decisions_do_not_depend_on_what_was_known_before_or_on_other_payments(seed, share):
    one, truth = model(seed), classes(seed)
    known, before = nothing_known(80, one), set()
    for batch in range(3):
        payments = rows(seed + batch, 60)
        judgement = Judgement(one, payments, share)
        known, asked = all_answered(one, judgement, truth, known)
        assert not asked & before
        before |= asked
        alert, level, score = trusted(one, payments, truth, share)
        found = judgement.decisions(known)
        assert np.array_equal(found.alert, alert)
        assert np.array_equal(found.level, level)
        assert np.allclose(found.score, score, rtol=1e-6)


def test_what_is_not_known_counts_as_ordinary():
    one, payments = model(1), rows(1)
    judgement = Judgement(one, payments, 0.05)
    found = judgement.decisions(nothing_known(80, one))
    assert judgement.raising.any()
    assert not found.bank_alert.any()
    assert np.array_equal(found.score, found.own_score)
    assert np.array_equal(found.alert, judgement.local_alert)


def test_there_are_questions_in_these_cases_and_answers_of_both_kinds():
    """Otherwise the tests above would show nothing."""
    one, payments, truth = model(1), rows(1), classes(1)
    judgement = Judgement(one, payments, 0.05)
    known, asked = all_answered(one, judgement, truth, nothing_known(80, one))
    assert len(asked) > 20
    assert judgement.decisions(known).n_bank_alerts
    assert (known == 1).any()
    assert (known == 0).any()
