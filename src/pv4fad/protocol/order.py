"""The whole protocol on one screen: who sends what to whom, and what the answer is.

S is the payment network, B a bank, A the aggregator.  The tables below are what runs: every party
takes what they say and nothing else, the payment network and the banks follow them step by step,
and the numbers of messages follow from them.  Rows marked `chain` are the steps of a bank's chain
(`protocol.chain`): the next one is sent when the one before has been answered.  All others go to
every receiver at once, proposals to a few at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pv4fad.protocol.chain import Step
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.count.messages import MaskedProducts, NoisyCounts, NoisySums
from pv4fad.protocol.live.messages import LiveQuery, LiveRefusal, LiveReply
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    TablesInForce,
    ValueDigits,
)
from pv4fad.protocol.notify.messages import Notify
from pv4fad.protocol.parameters import Mode, RunParameters
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import AGGREGATOR as A
from pv4fad.protocol.roles import BANK as B
from pv4fad.protocol.roles import PAYMENT_NETWORK as S
from pv4fad.protocol.score.messages import (
    BlindedSetShares,
    EncryptedLabels,
    LabelRequest,
    MeteredReply,
    MeteringStopped,
    OwnPart,
    ScoreQuery,
    ScoreReply,
    SetSharesOpened,
)
from pv4fad.protocol.score.plan import Batch, Place
from pv4fad.protocol.wire import Header, Message, kind_in_id


class Scope(Protocol):
    """What is public of a run, a match or a batch."""

    @property
    def mode(self) -> Mode: ...

    @property
    def banks(self) -> Collection[str]: ...


T = TypeVar("T", bound=Scope)


def once(scope: Scope, bank: str) -> Sequence[Place]:
    return [("", 0)]


def nowhere(scope: Scope, bank: str) -> Sequence[Place]:
    """In place of another message, if something is wrong."""
    return []


def blocks(run: RunParameters, bank: str) -> Sequence[Place]:
    return [(plan.table_id, chunk) for plan, chunk in run.match_steps(bank)]


def products(run: RunParameters, bank: str) -> Sequence[Place]:
    return [(plan.table_id, chunk) for plan, chunk in run.count_steps(bank)]


def leaf_blocks(run: RunParameters, bank: str) -> Sequence[Place]:
    return [("", block) for block in range(run.n_leaf_blocks)]


def direct(batch: Batch, bank: str) -> Sequence[Place]:
    return batch.queries(bank, "direct")


def summed(batch: Batch, bank: str) -> Sequence[Place]:
    return batch.queries(bank, "summed")


def metered(batch: Batch, bank: str) -> Sequence[Place]:
    return batch.queries(bank, "metered")


@dataclass(frozen=True)
class Row(Generic[T]):
    """One message, its answer if it has one, and how often: a place (table, number) each time."""

    phase: str
    sender: str
    message: type[Message]
    receiver: str
    answer: type[Message] | None = None
    places: Callable[[T, str], Sequence[Place]] = once
    modes: tuple[Mode, ...] = ("counts", "released", "sealed")
    chain: bool = False


_PAPER: tuple[Mode, ...] = ("released", "sealed")
_SEALED: tuple[Mode, ...] = ("sealed",)

# fmt: off
TRAINING: tuple[Row[RunParameters], ...] = (
    Row("propose", S, RunProposal, A, Receipt),
    Row("propose", S, RunProposal, B, BankKeys),
    Row("propose", S, Roster, B, Receipt, chain=True),
    Row("match", S, EncryptedTable, B, MaskedValues, blocks, chain=True),
    Row("match", S, ValueDigits, B, MaskedDistances, blocks, chain=True),
    Row("match", S, RemainderBits, B, MaskedDifferences, blocks, chain=True),
    Row("match", S, IndicatorPlanes, B, BlindedIndicators, blocks, chain=True),
    Row("count", S, MaskedProducts, B, Receipt, products, chain=True),
    Row("count", B, NoisySums, A),
    Row("count", A, NoisyCounts, S, modes=("counts",)),
    Row("compare", A, BlindedSums, S, modes=_PAPER),
    Row("compare", S, EncryptedDigits, A, places=leaf_blocks, modes=_PAPER),
    Row("labels", A, SharedLabels, S, places=leaf_blocks, modes=_PAPER),
    Row("labels", A, LabelMasks, B, modes=_SEALED),
    Row("labels", A, LabelMasks, S, modes=("released",)),
)
MATCHING: tuple[Row[RunParameters], ...] = (
    Row("match", S, RunProposal, B, BankKeys),
    Row("match", S, EncryptedTable, B, MaskedValues, blocks, chain=True),
    Row("match", S, ValueDigits, B, MaskedDistances, blocks, chain=True),
    Row("match", S, RemainderBits, B, MaskedDifferences, blocks, chain=True),
    Row("match", S, IndicatorPlanes, B, BlindedIndicators, blocks, chain=True),
    Row("match", S, TablesInForce, B, Receipt),
)
SCORING: tuple[Row[Batch], ...] = (
    Row("score", S, BlindedSetShares, B, SetSharesOpened, Batch.set_shares, _SEALED, chain=True),
    Row("score", S, LabelRequest, B, EncryptedLabels, Batch.label_requests, _SEALED, chain=True),
    Row("score", S, ScoreQuery, B, ScoreReply, direct, chain=True),
    Row("score", S, ScoreQuery, B, Receipt, summed, chain=True),
    Row("score", B, ScoreReply, A, places=summed),
    Row("score", A, ScoreReply, S, places=summed),
    Row("score", S, ScoreQuery, B, Receipt, metered, chain=True),
    Row("score", S, OwnPart, A, places=metered),
    Row("score", B, MeteredReply, A, places=metered),
    Row("score", A, ScoreReply, S, places=metered),  # or MeteringStopped
    Row("score", A, MeteringStopped, S, places=nowhere),
)
NOTICES: tuple[Row[RunParameters], ...] = (
    Row("notify", S, Notify, B, Receipt),  # whenever a person at S decides so
)
LIVE: tuple[Row[RunParameters], ...] = (
    Row("live", S, LiveQuery, B, LiveReply, modes=("counts",)),  # every tick
    Row("live", S, LiveQuery, B, LiveRefusal, modes=("counts",)),
)
# fmt: on
_KEPT: tuple[Row[Any], ...] = (*TRAINING, *MATCHING, *SCORING, *NOTICES)
ROWS: tuple[Row[Any], ...] = (*_KEPT, *LIVE)


def rows_of(scope: RunParameters | Batch) -> list[Row[Any]]:
    """The rows of training, of a further match or of a batch, in its mode."""
    rows: Sequence[Row[Any]] = SCORING
    if isinstance(scope, RunParameters):
        rows = TRAINING if scope.purpose == "training" else MATCHING
    return [row for row in rows if scope.mode in row.modes]


def accepted_by(role: str) -> dict[type[Message], tuple[str, ...]]:
    """What a party takes and answers once: each kind of message, and the roles that it takes it
    from.  Live messages pass it by: they are answered from memory and not kept."""
    taken: dict[type[Message], set[str]] = {}
    for row in _KEPT:
        if row.receiver == role:
            taken.setdefault(row.message, set()).add(row.sender)
        if row.sender == role and row.answer is not None:
            taken.setdefault(row.answer, set()).add(row.receiver)
    return {kind: tuple(sorted(roles)) for kind, roles in taken.items()}


def receivers_of(scope: RunParameters | Batch, kind: type[Message]) -> list[str]:
    """The names of all parties that a kind of message goes to."""
    roles = [row.receiver for row in rows_of(scope) if row.message is kind]
    return [name for role in roles for name in (scope.banks if role == B else [role])]


def chain_of(scope: RunParameters | Batch, bank: str) -> tuple[Step, ...]:
    """The chain of a bank."""
    return tuple(
        Step(row.message, row.answer, table_id, index)
        for row in rows_of(scope)
        if row.chain and row.answer is not None
        for table_id, index in row.places(scope, bank)
    )


def proposal_to(run: RunParameters, receiver: str) -> tuple[Step, ...]:
    """The chain of a party that is proposed a run or a match: one step."""
    role = A if receiver == A else B
    return tuple(
        Step(row.message, row.answer)
        for row in rows_of(run)
        if row.message is RunProposal and row.receiver == role and row.answer is not None
    )


def messages_of(scope: RunParameters | Batch) -> dict[str, int]:
    """How many messages each phase has, answers included."""
    n_messages: Counter[str] = Counter()
    for row in rows_of(scope):
        places = [place for bank in scope.banks for place in row.places(scope, bank)]
        # Between S and A a message about several banks is sent once.
        n_places = len(places if B in (row.sender, row.receiver) else set(places))
        n_messages[row.phase] += n_places * (1 if row.answer is None else 2)
    return dict(n_messages)


def phase_of(message: Header) -> str:
    """The phase that a message belongs to; a receipt to that of what it is a receipt of."""
    phases = _PHASE_AFTER_TRAINING if message.address.epoch else _PHASE_IN_TRAINING
    return phases[answered_kind(message)]


def answered_kind(message: Header) -> str:
    """The kind of a message; of a receipt, the kind of the message that it acknowledges."""
    return kind_in_id(str(message.scalars["of"])) if message.kind == Receipt.kind else message.kind


def _phases(*rows: Row[Any]) -> dict[str, str]:
    kinds = [(row, kind) for row in rows for kind in (row.message, row.answer)]
    return {kind.kind: row.phase for row, kind in kinds if kind not in (None, Receipt)}


_PHASE_IN_TRAINING = _phases(*TRAINING, *NOTICES)
_PHASE_AFTER_TRAINING = _phases(*MATCHING, *SCORING)
