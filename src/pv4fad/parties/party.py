"""What all parties have in common: a name, a store, worker processes, and how a message is handled.

    handle(bytes) → bytes to send

A message is decoded, checked against the party's state, answered, and the new state and the answer
are stored in one transaction before anything is sent.  A repeated message gets the stored answer.
A message that does not fit raises and changes nothing.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, ProtocolError, StoreError
from pv4fad.protocol.parameters import NOT_BANKS, RunParameters
from pv4fad.protocol.wire import Address, Message, decode, digest, encode, message_id
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

PAYMENT_NETWORK, AGGREGATOR = NOT_BANKS
BANK = "bank"  # the role; which banks take part in a run its parameters say
Accepts = Mapping[type[Message], tuple[str, ...]]


class Party(ABC):
    """A participant: everything it keeps is in its store."""

    accepts: ClassVar[Accepts]
    """The kinds of messages it takes, and the roles it takes each from.

    That a message comes from whom it says it comes from is for the transport to make sure.
    """

    def __init__(self, name: str, store: Store, pool: WorkerPool) -> None:
        self.name = name
        self.store = store
        self.pool = pool

    def handle(self, data: bytes) -> list[bytes]:
        """Answer a message; the answer is stored before it is returned."""
        message = decode(data)
        if message.address.receiver != self.name:
            raise ProtocolError(f"a message for {message.address.receiver} reached {self.name}")
        expect(
            role_of(message.address.sender) in self.accepts.get(type(message), ()),
            message,
            f"{self.name} takes no such message from this sender",
        )
        identity, request = message_id(message), digest(data)
        stored = self.store.reply_to(identity, request)
        if stored is not None:
            return stored
        with self.store.transaction() as tx:
            replies = [encode(reply) for reply in self._answer(message, tx)]
            tx.record_reply(identity, request, replies)
        return replies

    def unanswered(self) -> list[bytes]:
        """Everything sent and not yet known to have arrived: what to send again after a crash."""
        return self.store.unacknowledged()

    @abstractmethod
    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        """The replies to a new message, with all state changes in `tx`."""

    def _address(self, receiver: str, like: Address, table_id: str = "", index: int = 0) -> Address:
        return Address(self.name, receiver, like.run_id, table_id, like.epoch, index)


class RunRecords:
    """A party's records of one run, by short names; reads and writes inside a transaction.

    Epoch 0 is training; every later match of the same model has an epoch of its own.
    """

    def __init__(self, tx: Transaction, run_id: str, epoch: int = 0) -> None:
        self._tx = tx
        self._run_id = run_id
        self._prefix = f"run/{run_id}/" + (f"epoch/{epoch}/" if epoch else "")

    def of_epoch(self, epoch: int) -> RunRecords:
        """The records of another epoch of the same run."""
        return RunRecords(self._tx, self._run_id, epoch)

    def of_all_runs(self) -> RunRecords:
        """The party's records that belong to no run."""
        records = RunRecords(self._tx, self._run_id)
        records._prefix = "all runs/"
        return records

    def epochs(self) -> set[int]:
        """The epochs of this run after training that have records."""
        prefix = f"run/{self._run_id}/epoch/"
        names = self._tx.keys(prefix)
        return {int(name.removeprefix(prefix).partition("/")[0]) for name in names}

    def names(self, prefix: str) -> list[str]:
        """The names of all records of this epoch that start so, in order."""
        found = (name.removeprefix(self._prefix) for name in self._tx.keys(self._prefix + prefix))
        return sorted(found)

    def get(self, name: str) -> bytes:
        """A record that must be there."""
        value = self._tx.get(self._prefix + name)
        if value is None:
            raise StoreError(f"record {self._prefix}{name} is missing from the store")
        return value

    def find(self, name: str) -> bytes | None:
        """A record that may be there."""
        return self._tx.get(self._prefix + name)

    def put(self, name: str, value: bytes) -> None:
        self._tx.put(self._prefix + name, value)

    def delete(self, name: str) -> None:
        self._tx.delete(self._prefix + name)

    def delete_all(self, *prefixes: str) -> None:
        """Forget all records of this epoch whose names start so; "" for every record."""
        for prefix in prefixes:
            for name in self._tx.keys(self._prefix + prefix):
                self._tx.delete(name)

    def put_arrays(self, name: str, **arrays: NDArray[Any]) -> None:
        """Several arrays as one record."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        self.put(name, buffer.getvalue())

    def get_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of one record."""
        with np.load(io.BytesIO(self.get(name)), allow_pickle=False) as arrays:
            return dict(arrays)

    def put_json(self, name: str, value: Any) -> None:
        self.put(name, json.dumps(value).encode())

    def get_json(self, name: str) -> Any:
        return json.loads(self.get(name))

    def find_json(self, name: str, otherwise: Any) -> Any:
        """A record that may be there, or what to take otherwise."""
        raw = self.find(name)
        return otherwise if raw is None else json.loads(raw)

    def find_arrays(self, name: str) -> dict[str, NDArray[Any]] | None:
        """The arrays of a record that may be there."""
        return None if self.find(name) is None else self.get_arrays(name)

    def parameters(self) -> RunParameters:
        """The run's parameters, or an error if this party knows no such run."""
        raw = self.find("parameters")
        if raw is None:
            raise OrderError("a message of a run that this party has not been proposed")
        return RunParameters.from_json(raw)

    def put_stage(self, stage: Any) -> None:
        """How far the run is: a frozen dataclass of plain values."""
        self.put("stage", json.dumps([type(stage).__name__, asdict(stage)]).encode())

    def stage(self, kinds: Mapping[str, type[Any]]) -> Any:
        """How far the run is; None before it has begun."""
        raw = self.find("stage")
        if raw is None:
            return None
        name, fields = json.loads(raw)
        return kinds[name](**fields)


def acknowledge_previous(run: RunRecords, tx: Transaction, chain: str, message: Message) -> None:
    """A new message of a chain proves that what was sent before has arrived: drop those bytes."""
    previous = run.find(f"chain/{chain}")
    if previous is not None:
        tx.acknowledge(previous.decode())
    run.put(f"chain/{chain}", message_id(message).encode())


def role_of(name: str) -> str:
    """payment-network, aggregator or bank."""
    return name if name in NOT_BANKS else BANK


def stages(*kinds: type[Any]) -> dict[str, type[Any]]:
    """The stages of a party by name."""
    return {kind.__name__: kind for kind in kinds}


def out_of_order(message: Message, stage: Any) -> OrderError:
    """A message that does not fit the stage."""
    if stage is None:
        return OrderError(f"{message_id(message)}: no such run has been proposed here")
    return OrderError(f"{message_id(message)} does not fit the stage {type(stage).__name__}")


def expect(condition: bool, message: Message, what: str) -> None:
    """Refuse a message whose content does not fit the run's parameters."""
    if not condition:
        raise ProtocolError(f"{message_id(message)}: {what}")


def expect_residues(
    message: Message, values: NDArray[np.unsignedinteger], n: int, modulus: int
) -> None:
    """Refuse anything but n residues modulo t."""
    expect(values.shape == (n,), message, f"{values.shape} values where {n} are expected")
    expect(bool((values < modulus).all()), message, "a value outside 0..t−1")
