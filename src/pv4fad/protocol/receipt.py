"""Receipts: the answer to a message that needs no other (protocol.md §8)."""

from __future__ import annotations

from pv4fad.protocol.checks import expect
from pv4fad.protocol.wire import Message, id_of, message_id, wire_message


@wire_message("receipt", max_bytes=4 * 2**10)
class Receipt(Message):
    """To the sender of a message that needs no other answer: it has been handled."""

    of: str


def receipt_of(message: Message) -> Receipt:
    """The receipt that the receiver of a message sends."""
    return Receipt(message.address.answer(), of=message_id(message))


def expect_receipt_of(kind: type[Message], message: Receipt) -> None:
    """A receipt of the message of this kind that its sender was sent."""
    expected = id_of(kind, message.address.answer())
    expect(message.of == expected, message, "a receipt of something else")
