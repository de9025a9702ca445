"""The payment network's chains in match and count (protocol.md §3, §4): one per bank.

    roster → the blocks of the bank's tables → the masked products

One message of a chain is under way at a time, and at most `banks_at_once` chains are.  A match
after training consists of the blocks alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.count.network import products_of_lanes
from pv4fad.protocol.match.messages import BlindedIndicators, EncryptedTable
from pv4fad.protocol.match.network import EncryptedPlanes, keep_shares
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.messages import Roster
from pv4fad.protocol.receipt import Receipt, expect_receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords
from pv4fad.protocol.wire import Address, Message
from pv4fad.workers import WorkerPool

Answered = Mapping[str, int]
"""For each bank whose chain has begun, how many of its messages have been answered."""


class BankChains:
    """What to ask of which bank next, and whether an answer is one."""

    def __init__(self, pool: WorkerPool, banks_at_once: int) -> None:
        self._pool = pool
        self._banks_at_once = banks_at_once
        self._planes = EncryptedPlanes(pool)

    def first_banks(self, parameters: RunParameters) -> list[str]:
        """The banks whose chains begin at once."""
        return list(parameters.banks)[: self._banks_at_once]

    def advance(
        self, message: BlindedIndicators | Receipt, run: RunRecords, answered: Answered
    ) -> tuple[dict[str, int], list[str]]:
        """Take an answer: how far all chains are then, and the banks whose turn it is."""
        parameters, bank = run.parameters(), message.address.sender
        expect(bank in answered, message, "nothing was asked of it yet")
        self._take(message, run, answered[bank])
        after = {**answered, bank: answered[bank] + 1}
        if after[bank] < len(_steps(parameters, bank)):
            return after, [bank]
        waiting = [name for name in parameters.banks if name not in after][:1]
        return after | dict.fromkeys(waiting, 0), waiting

    def all_answered(self, parameters: RunParameters, answered: Answered) -> bool:
        """Whether all chains are complete."""
        return self._left(parameters, answered) == 0

    def all_sent(self, parameters: RunParameters, answered: Answered) -> bool:
        """Whether at most receipts of last messages are missing."""
        return self._left(parameters, answered) <= 1

    def _left(self, parameters: RunParameters, answered: Answered) -> int:
        """Of the chain that is furthest behind, how many messages have no answer."""
        return max(
            len(_steps(parameters, bank)) - answered.get(bank, 0) for bank in parameters.banks
        )

    def take_late_receipt(self, message: Receipt, run: RunRecords) -> None:
        """The last receipt of a bank can be overtaken by what follows from its sums."""
        parameters, bank = run.parameters(), message.address.sender
        expect(bank in parameters.banks, message, "takes no part in this run")
        self._take(message, run, len(_steps(parameters, bank)) - 1)

    def message(self, run: RunRecords, bank: str, number: int, like: Address) -> Message:
        """What the chain of a bank says next."""
        parameters = run.parameters()
        step = _steps(parameters, bank)[number]
        address = Address(PAYMENT_NETWORK, bank, like.run_id, step.table_id, like.epoch, step.chunk)
        if step.plan is None:
            identities = tuple(run.get(f"bank/{name}/identity") for name in parameters.banks)
            return Roster(address, identities)
        if step.kind is EncryptedTable:
            planes = self._planes.of_chunk(parameters, step.plan, step.chunk, run)
            return EncryptedTable(address, planes)
        products = products_of_lanes(
            parameters, step.plan, step.chunk, bank, run=run, pool=self._pool
        )
        return MaskedProducts(address, products)

    def _take(self, message: BlindedIndicators | Receipt, run: RunRecords, number: int) -> None:
        parameters, here = run.parameters(), message.address
        steps = _steps(parameters, here.sender)
        expect(number < len(steps), message, "nothing was asked")
        step = steps[number]
        wanted = BlindedIndicators if step.kind is EncryptedTable else Receipt
        expect(
            isinstance(message, wanted)
            and (here.table_id, here.index) == (step.table_id, step.chunk),
            message,
            "not what was asked",
        )
        if isinstance(message, Receipt):
            expect_receipt_of(step.kind, message)
        elif step.plan is not None:
            keep_shares(message, parameters, step.plan, step.chunk, run=run, pool=self._pool)


@dataclass(frozen=True)
class _Step:
    """One message of a bank's chain."""

    kind: type[Message]
    plan: TablePlan | None = None
    chunk: int = 0

    @property
    def table_id(self) -> str:
        return self.plan.table_id if self.plan else ""


def _steps(parameters: RunParameters, bank: str) -> list[_Step]:
    matches = [_Step(EncryptedTable, *step) for step in parameters.match_steps(bank)]
    if parameters.purpose == "matching":
        return matches
    return [
        _Step(Roster),
        *matches,
        *(_Step(MaskedProducts, *step) for step in parameters.count_steps(bank)),
    ]
