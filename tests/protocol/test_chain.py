"""Chains: one message per bank under way, so many banks at once, and no answer but the next."""

import pytest

from pv4fad.errors import ProtocolError
from pv4fad.protocol.chain import Chains, Step
from pv4fad.protocol.match.messages import EncryptedTable, MaskedValues
from pv4fad.protocol.propose.messages import Roster
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, id_of

BANKS = ("bank01", "bank02", "bank03")
STEPS = (
    Step(Roster, Receipt),
    Step(EncryptedTable, MaskedValues, "table", 0),
    Step(EncryptedTable, MaskedValues, "table", 1),
)


def chains(banks_at_once: int) -> Chains:
    return Chains(BANKS, lambda _: STEPS, banks_at_once)


def answer(bank: str, step: Step):
    address = Address(bank, PAYMENT_NETWORK, "run", step.table_id, 0, step.index)
    if step.answer is Receipt:
        return Receipt(address, id_of(step.kind, address.answer()))
    return MaskedValues(address, ())


@pytest.mark.parametrize("banks_at_once", [1, 2, 3, 5])
def test_all_steps_are_asked_once_each_and_in_order(banks_at_once):
    asked = []
    answered, turn = chains(banks_at_once).begin()
    while turn:
        assert sum(n < len(STEPS) for n in answered.values()) <= banks_at_once
        bank = turn.pop(0)
        step = STEPS[answered[bank]]
        asked.append((bank, step))
        answered, following = chains(banks_at_once).advance(answer(bank, step), answered)
        turn += following
    assert chains(banks_at_once).n_left(answered) == 0
    for bank in BANKS:
        assert [step for name, step in asked if name == bank] == list(STEPS)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (answer("bank02", STEPS[0]), "nothing was asked of it yet"),
        (answer("bank01", STEPS[0]), "not what was asked"),
        (answer("bank01", STEPS[2]), "not what was asked"),
    ],
    ids=["another bank", "answered already", "too early"],
)
def test_any_other_answer_is_refused(message, why):
    with pytest.raises(ProtocolError, match=why):
        chains(1).advance(message, {"bank01": 1})


def test_an_answer_after_the_last_is_refused():
    with pytest.raises(ProtocolError, match="nothing was asked"):
        chains(1).advance(answer("bank01", STEPS[2]), {"bank01": 3, "bank02": 0})


def test_a_receipt_of_another_message_is_refused():
    address = Address("bank01", PAYMENT_NETWORK, "run")
    other = Receipt(address, id_of(EncryptedTable, address.answer()))
    with pytest.raises(ProtocolError, match="a receipt of something else"):
        chains(1).advance(other, {"bank01": 0})
