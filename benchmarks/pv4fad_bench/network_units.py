"""Unit costs for `pv4fad bench network`: of a payment, of a live query, of a fragment at the hub.

Each is measured here with the code that does the work: CPU seconds of this process, bytes of what
is kept or sent.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from pv4fad.deployment.envelope import PART_BYTES, Fragment
from pv4fad.deployment.exchange import Reply, Request, from_bytes, to_bytes
from pv4fad.deployment.relay import Relay
from pv4fad.deployment.status import Journal as RelayJournal
from pv4fad.deployment.status import Status
from pv4fad.detection.fitting import fit_local_model
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.local_scale import honest_sample
from pv4fad.he.keys import generate_keys
from pv4fad.he.ring import PLAIN_MODULI, Ring, share_ring
from pv4fad.lead.known_rows import KnownRows
from pv4fad.lead.rows import account_index
from pv4fad.payments.features import compute_features
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import BENEFICIARY, LABEL, SCHEMA
from pv4fad.protocol.identity import identity_in
from pv4fad.protocol.live.messages import CLOCK_BYTES, LiveQuery, LiveReply
from pv4fad.protocol.live.plan import bound_of
from pv4fad.protocol.live.steps import Placed, QueryMaker, ReplyMaker
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.wire import Address, encode
from pv4fad.randomness import secret_bytes
from pv4fad.service.decisions import Decision
from pv4fad.service.intake import Intake, digest, texts_of
from pv4fad.service.journal import Entry, Journal
from pv4fad.store.store import MemoryStore
from pv4fad.tables.sides import Sides

_BANKS, _SEED = 25, 501
_TOGETHER = 50  # payments that are judged at once
_LIVE_PAYMENTS = 2_000
_QUERIES = 20
_FRAGMENTS = 50
OFFER = "00" * 96  # as long as a signed session key
Result = TypeVar("Result")


@dataclass(frozen=True)
class PaymentUnits:
    """Of one payment."""

    features_cpu_s: float
    model_cpu_s: float
    """Local model and honest scores, of a payment of training."""
    judge_cpu_s: float
    """Live, some payments at once: what is known before it, and its local score."""
    training_bytes: int
    """In memory while a training is prepared: its row and its features."""
    known_bytes: int
    """In memory of the live service, as long as it is known."""
    journal_bytes: int
    """On disk, with its decision."""


def payment_units(n_payments: int) -> PaymentUnits:
    """From generated payments, most of which are for training."""
    tables = generate_tables(Settings(n_payments, _BANKS, Difficulty.CHALLENGE, _SEED))
    train, test = tables.train.transactions, tables.test.transactions.drop(LABEL)
    labels = train[LABEL].to_numpy().astype(np.int8)
    features, features_s = _timed(lambda: compute_features(train))
    groups = account_index(Sides(SCHEMA, train), 1)[1].key_of[:, BENEFICIARY]

    def fit() -> LocalModel:
        made = fit_local_model(features.values, features.names, labels, groups, seed=_SEED)
        honest_sample(made, features.values, labels, _SEED)
        return made.model

    model, model_s = _timed(fit)
    known = KnownRows.of(SCHEMA, train)
    known_bytes = sum(array.nbytes for array in known.snapshot().arrays.values())
    live = test.head(_LIVE_PAYMENTS)

    def judge() -> None:
        for start in range(0, live.height, _TOGETHER):
            model.score(known.take(live[start : start + _TOGETHER]).features.values)

    judge_s = _timed(judge)[1]
    kept = train.estimated_size() + features.values.nbytes
    return PaymentUnits(
        features_s / train.height,
        model_s / train.height,
        judge_s / live.height,
        round(kept / train.height),
        round(known_bytes / train.height),
        _journal_bytes(live),
    )


def _journal_bytes(payments: pl.DataFrame) -> int:
    names, answers = Intake(SCHEMA).names, []
    ids = payments[SCHEMA.rows.id].to_list()
    for payment_id in ids:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        answers.append(Decision(payment_id, False, 0, 0.000123, (), "local only", now).to_json())
    texts = texts_of(payments.select(names))
    entries = [
        Entry(payment_id, digest(text), answer.decode(), names, text)
        for payment_id, text, answer in zip(ids, texts, answers, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="pv4fad-bench-") as folder:
        with Journal.open(Path(folder), secret_bytes(32)) as journal:
            path = journal.path
            for start in range(0, len(entries), _TOGETHER):
                journal.write(entries[start : start + _TOGETHER])
        return round(path.stat().st_size / len(entries))


@dataclass(frozen=True)
class LiveUnits:
    """Of one live query without questions, which a bank gets at every tick."""

    query_cpu_s: float
    """At the payment network."""
    reply_cpu_s: float
    """At the bank."""
    n_bytes: int
    """Query and reply."""
    block_bytes: int
    """In memory of the payment network, for each block of shares."""


def live_units(sets: Sequence[AskedSet], n_atoms: int) -> LiveUnits:
    """With fresh keys of the ring that large networks need."""
    parameters = share_ring(PLAIN_MODULI[-1])
    ring, keys = Ring.of(parameters), generate_keys(parameters, "bank", relinearisation=False)
    flood = bound_of(parameters, n_atoms, len(sets)).flood
    coefficients = [one.coefficients(n_atoms).tolist() for one in sets]
    maker, bank = QueryMaker(keys.public, flood, coefficients), ReplyMaker(keys.secret)
    nothing = Placed(*np.zeros((4, 0), np.int64))
    queries, query_s = _timed(lambda: [maker.query(nothing) for _ in range(_QUERIES)])
    replies, reply_s = _timed(lambda: [bank.reply(bank.load(one.ciphertext)) for one in queries])
    address = Address(PAYMENT_NETWORK, "bank", "run", index=10**9)
    sent = encode(LiveQuery(address, bytes(CLOCK_BYTES), queries[0].ciphertext))
    answered = encode(LiveReply(address.answer(), replies[0]))
    return LiveUnits(
        query_s / _QUERIES,
        reply_s / _QUERIES,
        len(sent) + len(answered),
        len(sets) * ring.ciphertext_bytes(parameters.n_data_primes),
    )


def identity_bytes() -> int:
    """Of the signed key that every bank is shown of every other one."""
    return len(identity_in(MemoryStore(party_names(1)[-1])).public().to_bytes())


def party_names(institutions: int) -> list[str]:
    """Of a federation with so many."""
    return [PAYMENT_NETWORK, AGGREGATOR, *(f"bank{k:05}" for k in range(1, institutions + 1))]


def hub_fragment_cpu_s(institutions: int) -> float:
    """What the hub's one loop does for a fragment of a megabyte and its acknowledgement, without
    TLS, in a federation of this size."""
    names = party_names(institutions)
    network, banks = names[0], names[2:]
    with tempfile.TemporaryDirectory(prefix="pv4fad-bench-") as folder:
        status = Status(number=1, job="train", started=datetime.now(UTC))
        relay = Relay(names, "train", "1", RelayJournal(Path(folder), status, names))
        first = relay.next(network)
        assert first is not None  # noqa: S101  a new session has something to say
        session, body = first.session, bytes(PART_BYTES)

        def said(party: str, **more: Any) -> Reply:
            return Reply(party, "station", session, more.pop("acknowledged", {}), "busy", **more)

        for name in names:
            relay.take(name, said(name, offer=OFFER))
        for name in (network, *banks[:_FRAGMENTS]):
            relay.next(name)

        def pass_on() -> None:
            for k in range(_FRAGMENTS):
                bank = banks[k % len(banks)]
                number = k // len(banks) + 1
                part = Fragment(network, bank, "f", "e" * 32, 0, 1, body, number)
                arrived = to_bytes(said(network, fragments=(part,)))
                relay.take(network, from_bytes(arrived, Reply))
                to_bytes(_there(relay.next(bank)))
                has_it = to_bytes(said(bank, acknowledged={network: number}))
                relay.take(bank, from_bytes(has_it, Reply))
                to_bytes(_there(relay.next(network)))

        return _timed(pass_on)[1] / _FRAGMENTS


def _there(request: Request | None) -> Request:
    assert request is not None  # noqa: S101  what has arrived is passed on
    return request


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What it yields, and its CPU seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
