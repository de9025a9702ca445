"""Records of a run under short names; typed records take their place."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, StoreError
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.store import Transaction


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


def stages(*kinds: type[Any]) -> dict[str, type[Any]]:
    """The stages of a party by name."""
    return {kind.__name__: kind for kind in kinds}
