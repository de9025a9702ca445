"""The aggregator in score (protocol.md §6): only the sum of answers goes on."""

from __future__ import annotations

import numpy as np

from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.score.state import ScoreSum
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address
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


def _onward(here: Address) -> Address:
    return here.onward(PAYMENT_NETWORK, here.table_id, here.index)
