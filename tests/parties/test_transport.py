"""The in-process transport passes bytes, keeps order, and knows who sent them."""

import pytest
from tests.kit.class_world import make_class_world
from tests.kit.message_count import count_messages

from pv4fad.errors import OrderError, ProtocolError, WireError
from pv4fad.parties.in_process import InProcessTransport
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.wire import Address, encode
from pv4fad.workers import WorkerPool

SERIAL = WorkerPool(0)


def receipt(sender: str, receiver: str, index: int = 0) -> bytes:
    return encode(Receipt(Address(sender, receiver, "run", index=index), of="something"))


class Echo:
    """Answers message i with what it was told to."""

    def __init__(self, answers=()):
        self.answers = list(answers)
        self.got = []

    def handle(self, data: bytes) -> list[bytes]:
        assert isinstance(data, bytes)
        self.got.append(data)
        return self.answers.pop(0) if self.answers else []


def test_messages_and_their_answers_arrive_in_the_order_they_were_sent():
    a, b = Echo(), Echo([[receipt("b", "a", 1), receipt("b", "a", 2)]])
    sent = [receipt("a", "b", 0), receipt("a", "b", 1)]
    InProcessTransport({"a": a, "b": b}, SERIAL).deliver("a", sent)
    assert b.got == sent
    assert a.got == [receipt("b", "a", 1), receipt("b", "a", 2)]


def test_the_observer_sees_every_message_once_with_its_size():
    seen = []
    transport = InProcessTransport(
        {"a": Echo(), "b": Echo()},
        SERIAL,
        lambda header, size: seen.append((header.scalars["of"], size)),
    )
    data = receipt("a", "b")
    transport.deliver("a", [data, data])
    transport.deliver("a", [data])
    assert seen == [("something", len(data))]


def test_a_message_is_decoded_once_whoever_observes_it(monkeypatch):
    world, seen = make_class_world(n_banks=1, n_bare=10), []
    count = count_messages(monkeypatch)
    world.train(lambda header, _: seen.append(header))
    assert count.handled == len(seen) > 8
    assert count.made == 2 * count.handled  # by its sender, and when its receiver decodes it


def test_no_party_sends_in_the_name_of_another():
    """A bank that answers in the name of another: the receiver never sees it."""
    network, liar = Echo(), Echo([[receipt("bank02", "network")]])
    transport = InProcessTransport({"network": network, "bank01": liar, "bank02": Echo()}, SERIAL)
    with pytest.raises(ProtocolError, match="not its own name"):
        transport.deliver("network", [receipt("network", "bank01")])
    with pytest.raises(ProtocolError, match="not its own name"):
        transport.deliver("bank01", [receipt("bank02", "network")])
    assert network.got == []


def test_an_unknown_receiver_and_bytes_that_are_no_message_are_refused():
    transport = InProcessTransport({"a": Echo()}, SERIAL)
    with pytest.raises(ProtocolError, match="no such receiver"):
        transport.deliver("a", [receipt("a", "nobody")])
    with pytest.raises(WireError):
        transport.deliver("a", [b"nonsense"])


def test_a_refusal_keeps_its_kind_and_says_who_refused():
    class Refusing:
        def handle(self, data):
            raise OrderError("not now")

    transport = InProcessTransport({"a": Echo(), "b": Refusing()}, SERIAL)
    with pytest.raises(OrderError, match="b: not now"):
        transport.deliver("a", [receipt("a", "b")])
