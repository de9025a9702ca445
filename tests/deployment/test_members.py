"""How parties treat late messages and jobs that they do not lead."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.members import AggregatorMember
from pv4fad.deployment.work import FileWork
from pv4fad.errors import OrderError, ParameterError
from pv4fad.lead.score import How
from pv4fad.parties.aggregator import AggregatorStage, Finished
from pv4fad.parties.epochs import LatestEpoch
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.wire import Address, encode
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool


@pytest.fixture
def aggregator():
    """Trained, and in the third match or batch since."""
    store = MemoryStore(AGGREGATOR)
    with store.transaction() as tx:
        records = Records(tx, "r")
        records.put(AggregatorStage(Finished()))
        records.put(LatestEpoch(3))
    return AggregatorMember(store, WorkerPool(0))


def reply(epoch):
    return encode(
        ScoreReply(Address("bank01", AGGREGATOR, "r", "t", epoch), np.zeros(1, np.uint32))
    )


def test_an_answer_to_a_batch_that_is_over_changes_nothing(aggregator):
    # After a crash a bank that has not heard of the next batch sends its last answers again.
    assert aggregator.handle(reply(2)) == []
    with pytest.raises(OrderError):  # goes on to the run's parameters, which there are none of
        aggregator.handle(reply(3))


def test_only_the_payment_network_leads(aggregator):
    with pytest.raises(ParameterError, match="only the lead can"):
        aggregator.do("train", None, again=False, order="")


def test_an_order_is_carried_out_once_whoever_starts_again(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(
        NetworkMember, "_train", lambda self, notes, post: begun.append(post) or notes
    )
    work = FileWork(tmp_path, SCHEMA, tmp_path / "none.csv", None, None, How())
    store = MemoryStore(PAYMENT_NETWORK)
    network = NetworkMember(store, WorkerPool(0), tmp_path, {}, schema=SCHEMA, work=work)
    network.do("train", None, again=False, order="first")
    network.do("train", None, again=True, order="first")  # a bank came back a moment later
    assert len(begun) == 1
    network.do("train", None, again=False, order="second")
    assert len(begun) == 2
