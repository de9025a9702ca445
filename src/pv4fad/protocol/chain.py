"""Chains of messages: what to ask of which bank next, and whether an answer fits.

Every bank has a chain of steps, each a message of the payment network and its answer.  One message
of a chain is under way at a time, and at most `banks_at_once` chains are.  Training, further
matches and batches of questions all run in this way; `order` says which steps they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pv4fad.protocol.checks import expect
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.wire import Message

Answered = Mapping[str, int]
"""For each bank whose chain has begun, how many of its messages have been answered."""


@dataclass(frozen=True)
class Step:
    """One message of a bank's chain, and the kind of its answer."""

    kind: type[Message]
    answer: type[Message]
    table_id: str = ""
    index: int = 0

    def expect_message(self, message: Message) -> None:
        """Refuse a message that is not this step."""
        here = message.address
        expect(
            isinstance(message, self.kind)
            and (here.table_id, here.index) == (self.table_id, self.index),
            message,
            f"{self.kind.kind} {self.table_id}/{self.index} is next",
        )

    def expect_answer(self, message: Message) -> None:
        """Refuse a message that does not answer this step."""
        here = message.address
        expect(
            isinstance(message, self.answer)
            and (here.table_id, here.index) == (self.table_id, self.index),
            message,
            "not what was asked",
        )
        if isinstance(message, Receipt):
            expect_receipt_of(self.kind, message)


@dataclass(frozen=True)
class Chains:
    """The chains of all banks in a run, a match or a batch."""

    banks: Sequence[str]
    steps_of: Callable[[str], Sequence[Step]]
    banks_at_once: int

    def begin(self) -> tuple[dict[str, int], list[str]]:
        """How far all chains are at first, and the banks whose turn it is."""
        first = list(self.banks[: self.banks_at_once])
        return dict.fromkeys(first, 0), first

    def advance(self, message: Message, answered: Answered) -> tuple[dict[str, int], list[str]]:
        """An answer has come: how far all chains are then, and the banks whose turn it is."""
        bank = message.address.sender
        expect(bank in answered, message, "nothing was asked of it yet")
        steps = self.steps_of(bank)
        expect(answered[bank] < len(steps), message, "nothing was asked")
        steps[answered[bank]].expect_answer(message)
        after = {**answered, bank: answered[bank] + 1}
        if after[bank] < len(steps):
            return after, [bank]
        waiting = [name for name in self.banks if name not in after][:1]
        return after | dict.fromkeys(waiting, 0), waiting

    def expect_last_answer(self, message: Message) -> None:
        """The last answer of a bank can be overtaken by what follows from its sums."""
        bank = message.address.sender
        expect(bank in self.banks, message, "takes no part in this run")
        self.steps_of(bank)[-1].expect_answer(message)

    def n_left(self, answered: Answered) -> int:
        """Of the chain that is furthest behind, how many messages have no answer."""
        return max(len(self.steps_of(bank)) - answered.get(bank, 0) for bank in self.banks)
