"""Judges ask in a fixed number of rounds, about accounts of the federation, and once."""

import numpy as np
import pytest
from tests.kit.small_federation import records_of

from pv4fad.evidence.classes import judged_kinds
from pv4fad.evidence.model import EvidenceModel
from pv4fad.lead.data import bank_directory
from pv4fad.lead.judging import EvidenceJudge, Judging
from pv4fad.lead.paper_model import DecisionJudge
from pv4fad.lead.prepare import prepare_payment_network
from pv4fad.lead.rows import LeadData, NewRows, new_rows
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.score.inputs import AskedSet

SHARE = 0.1
N_KINDS = len(SCHEMA.record.kind_names)


@pytest.fixture(scope="module")
def directory(tables):
    return bank_directory(records_of(tables.accounts, "bank01", "bank02"))


@pytest.fixture(scope="module")
def judge_of(tables, directory):
    """By model and payments: judges to whom every answer matters, on both sides of a payment."""
    known = LeadData(SCHEMA, tables.train.transactions, directory)
    evidence = prepare_payment_network(known, TrainingSettings(epsilon="none"), 1)
    settings = TrainingSettings(epsilon="none", model="paper", trees=1, height=2)
    trees = prepare_payment_network(known, settings, 1).trees

    def judge(model: str, payments: NewRows) -> EvidenceJudge | DecisionJudge:
        if model == "evidence":
            # Whatever an account is, it is nearly certain to make an alert of a payment.
            certain = np.full((2, 2, 3, 3), 9.0)
            own, rare = evidence.own.knowledge, np.full_like(certain, 0.001)
            strong = EvidenceModel(
                own, judged_kinds("fine", "class", N_KINDS), certain, rare, (0, 1, 2)
            )
            judging = Judging(evidence.own, strong, "class", N_KINDS, directory, SHARE)
            return EvidenceJudge(judging, payments)
        forest = trees.forest
        # A leaf says 0 to an ordinary account, and 1 to any other.
        red = np.zeros((forest.sizes.n_groups, 2), np.int8)
        red[:, 1] = 1
        return DecisionJudge(trees, red, payments, payments.askable(directory))

    return judge


@pytest.fixture(scope="module")
def payments(tables):
    return new_rows(SCHEMA, tables.test.transactions, tables.train.transactions)


def nothing_known(judge, payments: NewRows) -> np.ndarray:
    return np.full((len(payments.keys), len(judge.sets)), -1, np.int8)


MODELS = ("evidence", "paper")


@pytest.mark.parametrize("model", MODELS)
def test_accounts_of_institutions_outside_are_never_asked_about(
    judge_of, payments, directory, model
):
    judge = judge_of(model, payments)
    judge.begin(nothing_known(judge, payments))
    asked: set[int] = set()
    for number in range(len(judge.sets)):
        accounts = judge.ask(number)
        asked |= set(accounts.tolist())
        judge.take(number, accounts, np.zeros(len(accounts), np.int64))
    outside = {
        number
        for number, (bic, _) in enumerate(payments.keys)
        if bic is not None and bic not in directory
    }
    assert outside & set(payments.key_of.ravel().tolist())
    assert asked
    assert not asked & outside
    if model == "evidence":
        assert asked == set(range(len(payments.keys))) - outside


@pytest.mark.parametrize("model", MODELS)
def test_the_sets_asked_about_are_the_same_for_every_batch(judge_of, payments, tables, model):
    one = new_rows(SCHEMA, tables.test.transactions.head(1), tables.train.transactions)
    sets = judge_of(model, payments).sets
    assert judge_of(model, one).sets == sets
    assert len(sets) == len(set(sets)) == (3 if model == "evidence" else 1)


def test_the_sets_of_the_default_model_are_its_kinds(judge_of, payments):
    """Mild, severe, absent; each a question of its own."""
    sets = judge_of("evidence", payments).sets
    assert sets == (AskedSet((1,), False), AskedSet((2,), False), AskedSet((), True))


@pytest.mark.parametrize("model", MODELS)
def test_what_is_known_is_not_asked_for_and_decides_as_an_answer_does(judge_of, payments, model):
    first = judge_of(model, payments)
    known = nothing_known(first, payments)
    first.begin(known)
    for number in range(len(first.sets)):
        accounts = first.ask(number)
        bits = (accounts % 7 == number).astype(np.int64)
        first.take(number, accounts, bits)
        known[accounts, number] = bits
    second = judge_of(model, payments)
    second.begin(known)
    for number in range(len(second.sets)):
        accounts = second.ask(number)
        assert len(accounts) == 0
        second.take(number, accounts, np.zeros(0, np.int64))
    assert second.table().equals(first.table())
    assert first.learned().holder_alerts == second.learned().holder_alerts > 0
    assert first.learned().records_asked > 0 == second.learned().records_asked
