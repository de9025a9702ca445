"""How one field of a message becomes a header entry and raw bytes, and back.

Small values (int, bool, str) stand in the header; everything else is raw bytes in the payload, and
the header only says how many.  A length is compared with the bytes that are there before anything
is allocated.  Whatever does not fit raises `WireError`; no error repeats a value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import WireError

MAX_STR_BYTES = 4096
MAX_ITEMS = 2**20  # entries of one tuple: bounds the Python objects a message can make us create
MAX_DIMENSIONS = 4
INT64 = np.iinfo(np.int64)

Buffer = bytes | memoryview


class PayloadReader:
    """Takes the raw bytes behind the header one field after the other."""

    def __init__(self, payload: memoryview) -> None:
        self._rest = payload

    @property
    def n_left(self) -> int:
        """Bytes not yet taken."""
        return len(self._rest)

    def take(self, n_bytes: int) -> memoryview:
        """The next `n_bytes`, without copying."""
        if n_bytes > len(self._rest):
            raise WireError(f"truncated: {n_bytes} bytes announced, {len(self._rest)} there")
        taken, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return taken


class FieldCodec(ABC):
    """One type of field: what is allowed, and how it travels."""

    name: str

    @abstractmethod
    def check(self, value: Any) -> None:
        """Raise `WireError` unless `value` may be sent."""

    @abstractmethod
    def describe(self, value: Any) -> Any:
        """What the header says about the value."""

    def payload(self, value: Any) -> Iterable[Buffer]:
        """The raw bytes of the value."""
        return ()

    @abstractmethod
    def read(self, description: Any, payload: PayloadReader) -> Any:
        """The value again; the result still has to pass `check`."""

    def summary(self, value: Any) -> str:
        """What `repr` may show: the size, never the content."""
        return self.name


class Scalar(FieldCodec):
    """A value that stands in the header itself."""

    def describe(self, value: Any) -> Any:
        return value

    def read(self, description: Any, payload: PayloadReader) -> Any:
        return description


class IntField(Scalar):
    name = "int"

    def check(self, value: Any) -> None:
        _require_type(value, int)
        if not INT64.min <= value <= INT64.max:
            raise WireError("integer outside 64 bits")


class BoolField(Scalar):
    name = "bool"

    def check(self, value: Any) -> None:
        _require_type(value, bool)


class StrField(Scalar):
    name = "str"

    def check(self, value: Any) -> None:
        _require_type(value, str)
        try:
            n_bytes = len(value.encode())
        except UnicodeEncodeError:
            raise WireError("text with a lone surrogate") from None
        if n_bytes > MAX_STR_BYTES:
            raise WireError(f"text of {n_bytes} bytes, at most {MAX_STR_BYTES} are allowed")


class BytesField(FieldCodec):
    name = "bytes"

    def check(self, value: Any) -> None:
        _require_type(value, bytes)

    def describe(self, value: Any) -> Any:
        return len(value)

    def payload(self, value: Any) -> Iterable[Buffer]:
        return (value,)

    def read(self, description: Any, payload: PayloadReader) -> Any:
        return bytes(payload.take(_count(description)))

    def summary(self, value: Any) -> str:
        return f"{len(value)} bytes"


class BytesTupleField(FieldCodec):
    """Payload: the length of every item as a little-endian uint64, then the items."""

    name = "bytes[]"

    def check(self, value: Any) -> None:
        _require_tuple_of(value, bytes)

    def describe(self, value: Any) -> Any:
        return len(value)

    def payload(self, value: Any) -> Iterable[Buffer]:
        yield np.array([len(item) for item in value], "<u8").tobytes()
        yield from value

    def read(self, description: Any, payload: PayloadReader) -> Any:
        n_items = _count(description, MAX_ITEMS)
        lengths = np.frombuffer(payload.take(8 * n_items), "<u8")
        if n_items and int(lengths.max()) > payload.n_left:
            raise WireError(f"truncated: an item of {lengths.max()} bytes is not there")
        return tuple(bytes(payload.take(length)) for length in lengths.tolist())

    def summary(self, value: Any) -> str:
        return f"{len(value)} items, {sum(map(len, value))} bytes"


class IntTupleField(FieldCodec):
    """Payload: little-endian int64."""

    name = "int[]"

    def check(self, value: Any) -> None:
        _require_tuple_of(value, int)
        if value and not (INT64.min <= min(value) and max(value) <= INT64.max):
            raise WireError("integer outside 64 bits")

    def describe(self, value: Any) -> Any:
        return len(value)

    def payload(self, value: Any) -> Iterable[Buffer]:
        return (np.array(value, "<i8").tobytes(),)

    def read(self, description: Any, payload: PayloadReader) -> Any:
        n_items = _count(description, MAX_ITEMS)
        return tuple(np.frombuffer(payload.take(8 * n_items), "<i8").tolist())

    def summary(self, value: Any) -> str:
        return f"{len(value)} integers"


@dataclass(frozen=True)
class ArrayField(FieldCodec):
    """Payload: the entries in C order, little-endian.  Decoded arrays are read-only."""

    name: str
    dtype: np.dtype[Any]

    def check(self, value: Any) -> None:
        _require_type(value, np.ndarray)
        if value.dtype != self.dtype:
            raise WireError(f"an array of {value.dtype}, expected {self.dtype}")
        _check_shape(value.shape, self.dtype.itemsize, value.nbytes)

    def describe(self, value: Any) -> Any:
        return list(value.shape)

    def payload(self, value: Any) -> Iterable[Buffer]:
        little_endian = np.ascontiguousarray(value, self.dtype.newbyteorder("<"))
        return (little_endian.reshape(-1).view(np.uint8).data,)

    def read(self, description: Any, payload: PayloadReader) -> Any:
        _require_type(description, list)
        shape = tuple(_count(extent) for extent in description)
        n_bytes = math.prod(shape) * self.dtype.itemsize
        _check_shape(shape, self.dtype.itemsize, n_bytes)
        raw = np.frombuffer(payload.take(n_bytes), self.dtype.newbyteorder("<"))
        # One copy: aligned, and a small array does not keep a message of 100 MB alive.
        array: NDArray[Any] = raw.astype(self.dtype).reshape(shape)
        array.flags.writeable = False
        return array

    def summary(self, value: Any) -> str:
        return f"{self.name} {'×'.join(map(str, value.shape))}, {value.nbytes} bytes"


CODECS: dict[Any, FieldCodec] = {
    int: IntField(),
    bool: BoolField(),
    str: StrField(),
    bytes: BytesField(),
    tuple[bytes, ...]: BytesTupleField(),
    tuple[int, ...]: IntTupleField(),
    NDArray[np.uint64]: ArrayField("uint64", np.dtype(np.uint64)),
    NDArray[np.uint32]: ArrayField("uint32", np.dtype(np.uint32)),
    NDArray[np.int64]: ArrayField("int64", np.dtype(np.int64)),
    NDArray[np.uint8]: ArrayField("uint8", np.dtype(np.uint8)),
}


def _require_type(value: Any, wanted: type) -> None:
    # Exact types: a bool is not an int here, and a subclass could behave differently.
    if type(value) is not wanted:
        raise WireError(f"expected {wanted.__name__}, got {type(value).__name__}")


def _require_tuple_of(value: Any, wanted: type) -> None:
    _require_type(value, tuple)
    if len(value) > MAX_ITEMS:
        raise WireError(f"{len(value)} items, at most {MAX_ITEMS} are allowed")
    for item in value:
        _require_type(item, wanted)


def _count(value: Any, largest: int = INT64.max) -> int:
    _require_type(value, int)
    if not 0 <= value <= largest:
        raise WireError(f"a length outside 0..{largest}")
    return int(value)


def _check_shape(shape: tuple[int, ...], itemsize: int, n_bytes: int) -> None:
    if len(shape) > MAX_DIMENSIONS:
        raise WireError(f"an array of {len(shape)} dimensions, at most {MAX_DIMENSIONS}")
    # (0, 2^62, 2^62) holds no bytes, but numpy cannot even form it.
    if n_bytes == 0 and math.prod(max(extent, 1) for extent in shape) * itemsize > INT64.max:
        raise WireError("an array of impossible shape")
