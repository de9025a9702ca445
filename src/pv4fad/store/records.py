"""Typed records: what a party keeps is a frozen dataclass, stored and loaded as such.

    @dataclass(frozen=True)
    class OwnShare(Record):
        sums: NDArray[np.uint64] = field(repr=False)

    records = Records(tx, run_id, epoch)
    records.put(OwnShare(sums))
    records.get(OwnShare).sums
    records.put(OpenedBlock(u), bank, table_id, block)      one record for each place
    records.get(OpenedBlock, bank, table_id, block)

The name of a record is its class and its place; no other module spells names.  Arrays and bytes are
kept raw, behind a header in JSON that holds all other fields.  A record that is missing or damaged
raises `StoreError`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, ClassVar, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from pv4fad.errors import StoreError
from pv4fad.store.store import REPLY_PREFIX, Store, Transaction

Place = str | int
_LENGTH = struct.Struct("<Q")


class Record:
    """A frozen dataclass that a store can keep.

    Fields are arrays of one type, bytes, tuples of bytes, one of several dataclasses (kept with the
    name of its class), or what pydantic brings to JSON and back.
    """

    of_all_runs: ClassVar[bool] = False
    """Whether it belongs to the party rather than to one run."""


R = TypeVar("R", bound=Record)


class Records:
    """The records of one party about one run.

    Epoch 0 is training; every later match or batch of the same model has an epoch of its own.
    """

    def __init__(self, tx: Transaction, run_id: str, epoch: int = 0) -> None:
        self.tx = tx
        self.run_id = run_id
        self.epoch = epoch

    @classmethod
    def of_party(cls, tx: Transaction) -> Records:
        """Where only records that belong to no run are kept."""
        return cls(tx, "")

    def of_epoch(self, epoch: int) -> Records:
        """The records of another epoch of the same run."""
        return Records(self.tx, self.run_id, epoch)

    def epochs(self) -> set[int]:
        """The epochs after training that have records."""
        prefix = f"run/{self.run_id}/epoch/"
        names = self.tx.keys(prefix)
        return {int(name.removeprefix(prefix).partition("/")[0]) for name in names}

    def put(self, record: Record, *place: Place) -> None:
        """Keep a record, in place of the one that was there."""
        self.tx.put(self._name(type(record), place), to_bytes(record))

    def find(self, kind: type[R], *place: Place) -> R | None:
        """A record that may be there."""
        name = self._name(kind, place)
        raw = self.tx.get(name)
        return None if raw is None else from_bytes(kind, raw, name)

    def get(self, kind: type[R], *place: Place) -> R:
        """A record that must be there."""
        found = self.find(kind, *place)
        if found is None:
            name = self._name(kind, place)
            raise StoreError(f"record {name} is missing from the store{_what_to_do(name)}")
        return found

    def has(self, kind: type[Record], *place: Place) -> bool:
        """Whether a record is there."""
        name = self._name(kind, place)
        return self.tx.keys(name)[:1] == [name]

    def places(self, kind: type[Record], *place: Place) -> Iterator[tuple[str, ...]]:
        """The rest of the place of every record of a kind at or below a place, sorted by name."""
        name = self._name(kind, place)
        for found in self.tx.keys(name + "/"):
            yield tuple(found.removeprefix(name + "/").split("/"))

    def delete(self, *kinds: type[Record]) -> None:
        """Forget all records of these kinds, wherever their place is."""
        for kind in kinds:
            self.delete_at(kind)

    def delete_at(self, kind: type[Record], *place: Place) -> None:
        """Forget the records of a kind at and below a place."""
        name = self._name(kind, place)
        self.tx.delete(name)
        for found in self.tx.keys(name + "/"):
            self.tx.delete(found)

    def delete_all(self) -> None:
        """Forget every record of this epoch, and nothing of the party's that is of all runs."""
        for name in self.tx.keys(self._prefix):
            self.tx.delete(name)

    @property
    def _prefix(self) -> str:
        return f"run/{self.run_id}/epoch/{self.epoch}/" if self.epoch else f"run/{self.run_id}/run/"

    def _name(self, kind: type[Record], place: tuple[Place, ...]) -> str:
        prefix = "party/" if kind.of_all_runs else self._prefix
        for part in place:
            if "/" in str(part) or not str(part):
                raise StoreError(f"{kind.__name__}: {part!r} cannot be part of a record's place")
        return prefix + "/".join([kind.__name__, *map(str, place)])


def run_ids(store: Store) -> list[str]:
    """The runs that a party has records of."""
    return sorted({name.split("/")[1] for name in store.keys("run/")})


def copy_run(source: Store, target: Store, run_id: str) -> None:
    """What a party keeps about one run and about none, into an empty store."""
    others = [other for other in run_ids(source) if other != run_id]
    left_out = tuple(f"{kind}{other}/" for other in others for kind in ("run/", REPLY_PREFIX))
    source.copy_to(target, lambda name: name.startswith(left_out))


def stored(store: Store, run_id: str, kind: type[R], *place: Place, epoch: int = 0) -> R:
    """One record of a store that must be there, in a transaction of its own."""
    with store.transaction() as tx:
        return Records(tx, run_id, epoch).get(kind, *place)


def to_bytes(record: Record) -> bytes:
    """A header, then the raw fields one after the other."""
    header: dict[str, Any] = {}
    raw: list[bytes | memoryview] = []
    for name, form in _forms(type(record)).items():
        header[name], parts = form.write(getattr(record, name))
        raw += parts
    head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *raw])


def from_bytes(kind: type[R], data: bytes, name: str = "") -> R:
    """The record again, arrays read-only; `StoreError` if the bytes are not one of this kind."""
    try:
        (size,) = _LENGTH.unpack_from(data)
        rest = _Rest(memoryview(data)[_LENGTH.size :])
        header = json.loads(bytes(rest.take(size)))
        forms = _forms(kind)
        if list(header) != list(forms):
            raise ValueError("other fields")
        record = kind(**{field: form.read(header[field], rest) for field, form in forms.items()})
        rest.require_empty()
    except (ValueError, KeyError, TypeError, struct.error):
        what = name or kind.__name__
        why = f"is damaged, or of another version{_what_to_do(what)}"
        raise StoreError(f"record {what} {why}") from None
    return record


def _what_to_do(name: str) -> str:
    """Stores are migrated, and not what they hold of a run (docs/operate/stores.md)."""
    if not name.startswith("run/"):
        return ""
    return ": if another version of pv4fad has trained this run, train again"


class _Rest:
    """The raw bytes that have not been read yet."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def take(self, n_bytes: int) -> memoryview:
        if not 0 <= n_bytes <= len(self._view):
            raise ValueError("truncated")
        taken, self._view = self._view[:n_bytes], self._view[n_bytes:]
        return taken

    def require_empty(self) -> None:
        if len(self._view):
            raise ValueError("more than the fields of the record")


class _Form(Protocol):
    """How a field is kept: an entry of the header, and raw bytes."""

    def write(self, value: Any) -> tuple[Any, list[bytes | memoryview]]: ...

    def read(self, entry: Any, rest: _Rest) -> Any: ...


@dataclass(frozen=True)
class _Array:
    dtype: np.dtype[Any]

    def write(self, value: NDArray[Any]) -> tuple[Any, list[bytes | memoryview]]:
        if value.dtype != self.dtype:
            raise StoreError(f"an array of {value.dtype} where a record has {self.dtype}")
        # An empty array has no memory to look at.
        raw = np.ascontiguousarray(value).data.cast("B") if value.size else b""
        return list(value.shape), [raw]

    def read(self, entry: Any, rest: _Rest) -> NDArray[Any]:
        raw = rest.take(math.prod(entry) * self.dtype.itemsize)
        return np.frombuffer(raw, self.dtype).reshape(entry)


class _Bytes:
    def write(self, value: bytes) -> tuple[Any, list[bytes | memoryview]]:
        return len(value), [value]

    def read(self, entry: Any, rest: _Rest) -> bytes:
        return bytes(rest.take(entry))


class _Parts:
    def write(self, value: tuple[bytes, ...]) -> tuple[Any, list[bytes | memoryview]]:
        return [len(part) for part in value], list(value)

    def read(self, entry: Any, rest: _Rest) -> tuple[bytes, ...]:
        return tuple(bytes(rest.take(n_bytes)) for n_bytes in entry)


@dataclass(frozen=True)
class _Json:
    adapter: TypeAdapter[Any]

    def write(self, value: Any) -> tuple[Any, list[bytes | memoryview]]:
        return json.loads(self.adapter.dump_json(value)), []

    def read(self, entry: Any, rest: _Rest) -> Any:
        return self.adapter.validate_json(json.dumps(entry))


class _OneOf:
    """One of several dataclasses, by the name of its class."""

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self._adapters = {kind.__name__: TypeAdapter(kind) for kind in kinds}

    def write(self, value: Any) -> tuple[Any, list[bytes | memoryview]]:
        name = type(value).__name__
        return [name, json.loads(self._adapters[name].dump_json(value))], []

    def read(self, entry: Any, rest: _Rest) -> Any:
        name, content = entry
        return self._adapters[name].validate_json(json.dumps(content))


_FORMS: dict[Any, dict[str, _Form]] = {}


def _forms(kind: Any) -> dict[str, _Form]:
    if kind not in _FORMS:
        hints = get_type_hints(kind)
        _FORMS[kind] = {entry.name: _form(hints[entry.name]) for entry in fields(kind)}
    return _FORMS[kind]


def _form(hint: Any) -> _Form:
    if get_origin(hint) is np.ndarray:
        _, dtype = get_args(hint)
        return _Array(np.dtype(get_args(dtype)[0]))
    if hint is bytes:
        return _Bytes()
    if hint == tuple[bytes, ...]:
        return _Parts()
    if get_origin(hint) in (Union, UnionType) and all(map(is_dataclass, get_args(hint))):
        return _OneOf(get_args(hint))
    return _Json(TypeAdapter(hint))
