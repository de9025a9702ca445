"""The aggregator in score (protocol.md §6): only sums of answers go on, metered ones counted."""

from __future__ import annotations

import numpy as np

from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import MeteredReply, MeteringStopped, OwnPart, ScoreReply
from pv4fad.protocol.score.metering import Budget, Metered
from pv4fad.protocol.score.state import FirstPart, ScoreSum
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address, Message
from pv4fad.store.records import Records

_NOTHING = np.zeros(0, np.uint32)


def add_answer(message: ScoreReply, run: Records) -> list[ScoreReply]:
    """The answer of one more bank; the sum, once all banks are in."""
    parameters, here = parameters_of(run.of_epoch(0)), message.address
    banks, t = parameters.banks, parameters.plain_modulus
    so_far = run.find(ScoreSum, here.table_id, here.index)
    received = () if so_far is None else so_far.received
    expect(here.sender in banks and here.sender not in received, message, "not expected from it")
    expect(
        so_far is None or so_far.residues.shape == message.residues.shape,
        message,
        "not as many values as another party sent",
    )
    expect_residues(message, message.residues, message.residues.size, t)
    total = message.residues.astype(np.uint64)
    if so_far is not None:
        total = (total + so_far.residues) % np.uint64(t)
    residues = total.astype(np.uint32)
    received = (*received, here.sender)
    complete = len(received) == len(banks)
    run.put(ScoreSum(received, _NOTHING if complete else residues), here.table_id, here.index)
    return [ScoreReply(_onward(here), residues)] if complete else []


def meter(message: OwnPart | MeteredReply, run: Records, today: str) -> list[Message]:
    """One of the two parts of a sum; with the other, the bits, or why they are not passed on."""
    parameters, here = parameters_of(run.of_epoch(0)), message.address
    expect(parameters.metered, message, "nothing is metered in this run")
    expect_residues(message, message.residues, message.residues.size, parameters.plain_modulus)
    budget = (
        (message.positives_per_day, message.release) if isinstance(message, MeteredReply) else ()
    )
    first = run.find(FirstPart, here.table_id, here.index)
    if first is None:
        run.put(FirstPart(here.sender, budget, message.residues), here.table_id, here.index)
        return []
    bank = next(name for name in (here.sender, first.sender) if name != PAYMENT_NETWORK)
    expect(
        {here.sender, first.sender} == {PAYMENT_NETWORK, bank}
        and here.table_id.partition("@")[0] == bank
        and first.residues.shape == message.residues.shape,
        message,
        "does not go with the other part of this sum",
    )
    run.delete_at(FirstPart, here.table_id, here.index)
    total = message.residues.astype(np.uint64) + first.residues
    slots = (total % np.uint64(parameters.plain_modulus)).astype(np.uint32)
    allowed = Budget(*(budget or first.budget))
    metered = run.find(Metered, bank) or Metered()
    after = metered.after(slots, allowed, today)
    if isinstance(after, Metered):
        run.put(after, bank)
        return [ScoreReply(_onward(here), slots)]
    run.put(metered.stopped(allowed), bank)
    return [MeteringStopped(_onward(here), after)]


def _onward(here: Address) -> Address:
    return here.onward(PAYMENT_NETWORK, here.table_id, here.index)
