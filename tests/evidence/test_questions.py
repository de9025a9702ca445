"""What is asked, and what follows from the answers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.evidence_cases import by_kind, classes, model, rows

from pv4fad.errors import DataError, OrderError, ProtocolError
from pv4fad.evidence.judgement import Judgement, nothing_known
from pv4fad.evidence.questions import Questions, answers_of

SEEDS = st.integers(0, 10_000)
SHARES = st.sampled_from([0.01, 0.05, 0.2])


def answered(questions, kinds, truth):
    """All rounds, by a trusted third party; what was asked in each."""
    asked = []
    for number in range(questions.n_rounds):
        accounts = questions.ask(number)
        asked.append(accounts)
        questions.take(number, accounts, answers_of(kinds[number], truth[accounts]))
    return questions.outcome(), asked


def level_of(hazard, threshold):
    score = 1 - np.exp(-hazard)
    return (hazard >= threshold) * (1 + (score >= 0.5) + (score >= 0.9))


def own_hazard(one, payments):
    own = one.knowledge
    hazard = np.log1p(np.exp(own.scale.offset + own.scale.slope * payments.local_scores))
    return hazard + 0.2 * payments.hit.sum(axis=1)


@given(SEEDS, SHARES)
@settings(max_examples=40, deadline=None)
def test_the_outcome_is_that_of_somebody_who_sees_all_classes(seed, share):
    one, payments, truth = model(seed), rows(seed), classes(seed)
    # Without a limit on alerts: then the order of rounds does not matter for who alerts.
    found, _ = answered(
        unlimited(Questions(Judgement(one, payments, share), nothing_known(80, one))),
        one.kinds,
        truth,
    )
    own, threshold = own_hazard(one, payments), one.threshold(share)
    first = payments.is_first.astype(int)
    adds = [
        np.log1p(np.exp(by_kind(one)))[side, first, payments.stratum[:, side], truth[account]]
        for side, account in enumerate(payments.account.T)
    ]
    raises = [
        payments.askable[:, side]
        & (level_of(own + adds[side], threshold) > level_of(own, threshold))
        for side in (0, 1)
    ]
    assert np.array_equal(found.bank_alert, raises[0] | raises[1])
    assert np.array_equal(found.local_alert, own >= threshold)
    hazard = -np.log1p(-found.score)
    untouched = ~found.bank_alert
    assert np.allclose(hazard[untouched], own[untouched], rtol=1e-6)
    # A side that is known to raise counts; the other one need not be known.
    least = own + np.where(raises[0] & raises[1], np.minimum(*adds), adds[0] * raises[0])
    least = np.where(raises[1] & ~raises[0], own + adds[1], least)
    most = own + adds[0] * raises[0] + adds[1] * raises[1]
    assert np.all(hazard >= least * (1 - 1e-6))
    assert np.all(hazard <= most * (1 + 1e-6) + 1e-9)


def unlimited(questions):
    questions._budget = 10**9
    return questions


@given(SEEDS, SHARES)
@settings(max_examples=40, deadline=None)
def test_alerts_are_above_all_others_and_have_levels_by_score(seed, share):
    one = model(seed)
    questions = Questions(Judgement(one, rows(seed), share), nothing_known(80, one))
    found, _ = answered(questions, one.kinds, classes(seed))
    if found.alert.any() and not found.alert.all():
        assert found.score[found.alert].min() > found.score[~found.alert].max()
    levels = np.where(found.alert, 1 + (found.score >= 0.5) + (found.score >= 0.9), 0)
    assert np.array_equal(found.level, levels)


@given(SEEDS, SHARES)
@settings(max_examples=40, deadline=None)
def test_only_accounts_that_can_change_a_level_are_asked_about(seed, share):
    one, payments, truth = model(seed), rows(seed), classes(seed)
    questions = unlimited(Questions(Judgement(one, payments, share), nothing_known(80, one)))
    _, asked = answered(questions, one.kinds, truth)
    own, threshold = own_hazard(one, payments), one.threshold(share)
    first = payments.is_first.astype(int)
    settled = np.zeros(len(payments), np.bool_)  # raised already: no reason for a question
    for number, accounts in enumerate(asked):
        positive = accounts[np.isin(truth[accounts], one.kinds[number])]
        may, raised_now = set(), np.zeros(len(payments), np.bool_)
        for side in (0, 1):
            adds = one.hazard[side, first, payments.stratum[:, side], number]
            raised = level_of(own + adds, threshold) > level_of(own, threshold)
            raised &= payments.askable[:, side]
            may |= set(payments.account[raised & ~settled, side].tolist())
            raised_now |= raised & np.isin(payments.account[:, side], positive)
        assert set(accounts.tolist()) <= may
        assert np.array_equal(accounts, np.unique(accounts))
        settled |= raised_now


@given(SEEDS, SHARES)
@settings(max_examples=25, deadline=None)
def test_nothing_is_asked_twice_in_an_epoch_nor_what_follows_from_answers(seed, share):
    one, truth = model(seed), classes(seed)
    known, before = nothing_known(80, one), set()
    for batch in range(4):
        questions = Questions(Judgement(one, rows(seed + batch, 60), share), known)
        found, asked = answered(questions, one.kinds, truth)
        positive = {account for account in range(80) if (known[account] == 1).any()}
        for number, accounts in enumerate(asked):
            now = {(int(account), number) for account in accounts}
            assert not now & before
            assert not set(accounts.tolist()) & positive
            before |= now
            positive |= set(accounts[np.isin(truth[accounts], one.kinds[number])].tolist())
        known = found.known
        for account, number in zip(*np.nonzero(known != -1), strict=True):
            assert known[account, number] == (truth[account] in one.kinds[number])
        assert found.n_accounts_known == (known != -1).any(axis=1).sum()
        assert found.n_accounts_positive == (known == 1).any(axis=1).sum()


def test_there_are_questions_in_these_cases_and_answers_of_both_kinds():
    """Otherwise the tests above would show nothing."""
    one = model(1)
    questions = unlimited(Questions(Judgement(one, rows(1), 0.05), nothing_known(80, one)))
    found, asked = answered(questions, one.kinds, classes(1))
    assert all(len(accounts) for accounts in asked)
    assert 0 < found.n_accounts_positive < found.n_accounts_known
    assert found.n_bank_alerts
    assert found.n_accounts_asked == len(np.unique(np.concatenate(asked)))
    assert found.n_payments_asked == found.asked.sum() > 0
    assert found.n_alerts > found.n_bank_alerts


def test_nothing_is_asked_if_no_kind_tells_anything():
    silent = model(2)
    silent = dataclasses.replace(silent, log_odds=np.full_like(silent.log_odds, -np.inf))
    questions = Questions(Judgement(silent, rows(2), 0.2), nothing_known(80, silent))
    found, asked = answered(questions, silent.kinds, classes(2))
    assert found.local_alert.any()
    assert not any(len(accounts) for accounts in asked)
    assert found.n_payments_asked == 0


def test_nothing_is_asked_about_alerts_of_the_highest_level():
    one, payments = model(3), rows(3)
    certain = dataclasses.replace(payments, local_scores=np.full(300, 5.0))
    found, asked = answered(
        Questions(Judgement(one, certain, 0.01), nothing_known(80, one)), one.kinds, classes(3)
    )
    assert (found.level == 3).all()
    assert not any(len(accounts) for accounts in asked)


def test_nothing_is_asked_about_accounts_outside_of_the_federation():
    one, payments = model(1), rows(1)
    outside = dataclasses.replace(payments, askable=np.zeros((300, 2), np.bool_))
    _, asked = answered(
        Questions(Judgement(one, outside, 0.05), nothing_known(80, one)), one.kinds, classes(1)
    )
    assert not any(len(accounts) for accounts in asked)


def test_when_banks_have_raised_as_many_as_may_alert_the_rounds_are_empty():
    one, payments = model(1), rows(1)
    questions = Questions(Judgement(one, payments, 0.01), nothing_known(80, one))  # 3 alerts
    accounts = questions.ask(0)
    assert len(accounts) > 3
    questions.take(0, accounts, np.ones(len(accounts), np.int8))
    for number in (1, 2):
        assert len(questions.ask(number)) == 0
        questions.take(number, questions.ask(number), np.empty(0, np.int8))
    without = Questions(Judgement(one, payments, 0.01), nothing_known(80, one))
    without.take(0, accounts, np.zeros(len(accounts), np.int8))
    assert len(without.ask(1)) > 0


def test_answers_must_fit_the_question():
    one = model(1)
    questions = Questions(Judgement(one, rows(1), 0.05), nothing_known(80, one))
    with pytest.raises(OrderError):
        questions.ask(1)
    with pytest.raises(OrderError):
        questions.outcome()
    accounts = questions.ask(0)
    with pytest.raises(ProtocolError, match="neither 0 nor 1"):
        questions.take(0, accounts, np.full(len(accounts), 2))
    with pytest.raises(ProtocolError, match="not asked"):
        questions.take(0, accounts[1:], np.zeros(len(accounts) - 1))
    questions.take(0, accounts, np.zeros(len(accounts)))
    with pytest.raises(OrderError):
        questions.take(0, accounts, np.zeros(len(accounts)))


def test_known_answers_are_not_changed_and_must_have_a_column_per_kind():
    one = model(1)
    known = nothing_known(80, one)
    answered(Questions(Judgement(one, rows(1), 0.05), known), one.kinds, classes(1))
    assert (known == -1).all()
    with pytest.raises(DataError):
        Questions(Judgement(one, rows(1), 0.05), known[:, :2])
    with pytest.raises(DataError):
        Questions(Judgement(one, rows(1), 0.05), known[:5])
