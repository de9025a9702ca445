"""What the payment network does at each step of a bank's chain (`protocol.chain`).

    chains.begin(scope, run)                          → how far all chains are, first messages
    chains.advance(scope, answer, answered, run)      → how far they are then, next messages

`scope` is what is public: a proposal, the parameters of a run or a match that all have been
proposed, or a batch of questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pv4fad.protocol.chain import Answered, Chains
from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.count.network import make_products
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    ValueDigits,
)
from pv4fad.protocol.match.network import (
    MatchMessages,
    keep_differences,
    keep_distances,
    keep_shares,
    keep_values,
)
from pv4fad.protocol.order import chain_of, proposal_to, receivers_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.network import keep_bank_keys, make_proposal, make_roster
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import (
    BlindedSetShares,
    EncryptedLabels,
    LabelRequest,
    ScoreQuery,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.network import (
    add_answer,
    keep_labels,
    keep_set_shares_opened,
    make_label_request,
)
from pv4fad.protocol.score.plan import Batch
from pv4fad.protocol.score.queries import NetworkQueries
from pv4fad.protocol.wire import Address, Message
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Proposing:
    """Everybody is proposed a run or match before anything else."""

    parameters: RunParameters


Scope = Proposing | RunParameters | Batch


class NetworkChains:
    """Makes the messages of all chains and takes their answers."""

    def __init__(self, pool: WorkerPool, banks_at_once: int) -> None:
        self._banks_at_once = banks_at_once
        match, queries = MatchMessages(pool), NetworkQueries(pool)
        self.forget_begun = match.forget
        self._make: Mapping[
            type[Message], Callable[[Address, Records], Message | Sequence[Message]]
        ] = {
            RunProposal: make_proposal,
            Roster: make_roster,
            EncryptedTable: match.make_table,
            ValueDigits: match.make_digits,
            RemainderBits: match.make_bits,
            IndicatorPlanes: match.make_planes,
            MaskedProducts: partial(make_products, pool=pool),
            BlindedSetShares: queries.make_set_shares,
            LabelRequest: make_label_request,
            ScoreQuery: queries.make_query,
        }
        self._take: Mapping[type[Message], Callable[[Any, Records], None]] = {
            BankKeys: keep_bank_keys,
            Receipt: lambda receipt, run: None,
            MaskedValues: partial(keep_values, pool=pool),
            MaskedDistances: partial(keep_distances, pool=pool),
            MaskedDifferences: partial(keep_differences, pool=pool),
            BlindedIndicators: partial(keep_shares, pool=pool),
            SetSharesOpened: keep_set_shares_opened,
            EncryptedLabels: keep_labels,
            ScoreReply: add_answer,
        }

    def begin(self, scope: Scope, run: Records) -> tuple[dict[str, int], list[Message]]:
        """The first messages, and how far all chains are."""
        chains = self._chains(scope)
        answered, receivers = chains.begin()
        return answered, self._next(chains, answered, receivers, run)

    def advance(
        self, scope: Scope, message: Message, answered: Answered, run: Records
    ) -> tuple[dict[str, int], list[Message]]:
        """Take an answer: how far all chains are then, and the next messages."""
        chains = self._chains(scope)
        after, receivers = chains.advance(message, answered)
        self._take[type(message)](message, run)
        return after, self._next(chains, after, receivers, run)

    def are_complete(self, scope: Scope, answered: Answered) -> bool:
        """Whether every message of every chain has been answered."""
        return self._chains(scope).n_left(answered) == 0

    def are_sent(self, scope: Scope, answered: Answered) -> bool:
        """Whether at most the answers to the last messages are missing."""
        return self._chains(scope).n_left(answered) <= 1

    def expect_last_answer(self, scope: Scope, message: Message) -> None:
        """Refuse anything but the last answer of a bank, which may be late."""
        self._chains(scope).expect_last_answer(message)

    def _chains(self, scope: Scope) -> Chains:
        if isinstance(scope, Proposing):
            parameters = scope.parameters
            receivers = receivers_of(parameters, RunProposal)
            return Chains(receivers, partial(proposal_to, parameters), self._banks_at_once)
        return Chains(list(scope.banks), partial(chain_of, scope), self._banks_at_once)

    def _next(
        self, chains: Chains, answered: Answered, receivers: Iterable[str], run: Records
    ) -> list[Message]:
        """What these are asked next."""
        messages: list[Message] = []
        for receiver in receivers:
            step = chains.steps_of(receiver)[answered[receiver]]
            place = run.run_id, step.table_id, run.epoch, step.index
            made = self._make[step.kind](Address(PAYMENT_NETWORK, receiver, *place), run)
            messages += [made] if isinstance(made, Message) else made
        return messages
