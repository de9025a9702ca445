"""Messages as bytes: a versioned envelope that a hostile sender cannot abuse.  Never pickle.

    magic "PV4M" | version u16 | length of kind u8 | length of header u32 | kind | header | payload

(little-endian).  The header is canonical JSON: the address and, for each field in order, its name,
type and size.  The payload is the raw bytes of the fields, back to back.  There is exactly one
encoding of a message, so `digest` of the bytes identifies its content.

A kind of message is a class below `Message` under `@wire_message`: its fields are int, bool, str,
bytes, tuple[bytes, ...], tuple[int, ...] or NDArray of uint64, uint32, int64, uint8; what further
has to hold goes into `check`.  A message is valid once it is made, and so is a decoded one.
`decode` raises `WireError` and nothing else.  `repr` shows sizes only: payloads can be secret.

Whoever carries a message reads its header only (`read_header`); its receiver decodes it, once.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

import numpy as np

from pv4fad.errors import Pv4fadError, WireError
from pv4fad.protocol.wire_fields import CODECS, Buffer, FieldCodec, PayloadReader, Scalar

MAGIC = b"PV4M"
FORMAT_VERSION = 5  # match with powers of classes and larger digits
MAX_HEADER_BYTES = 2**16
MAX_COUNTER = 2**53  # epochs and indices

_PREFIX = struct.Struct("<4sHBI")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}")
# No "/": a message id is a path of names, and must be unambiguous.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_NAME_RULE = "needs 1 to 128 letters, digits or . _ : @ + -, starting with a letter or digit"


@dataclass(frozen=True)
class Address:
    """From whom, to whom, and which message of the run it is (protocol.md §3.4)."""

    sender: str
    receiver: str
    run_id: str
    table_id: str = ""
    epoch: int = 0
    index: int = 0  # block, batch or layer where a message is sent in parts

    def __post_init__(self) -> None:
        for name in ("sender", "receiver", "run_id", "table_id"):
            value = getattr(self, name)
            if name == "table_id" and value == "":
                continue
            if type(value) is not str or not _NAME.fullmatch(value):
                raise WireError(f"address: {name} {_NAME_RULE}")
        for name in ("epoch", "index"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= MAX_COUNTER:
                raise WireError(f"address: {name} must be an integer in 0..2^53")

    def answer(self) -> Address:
        """The address of the answer to a message: back to its sender."""
        return replace(self, sender=self.receiver, receiver=self.sender)

    def onward(self, receiver: str, table_id: str = "", index: int = 0) -> Address:
        """The address of what the receiver of a message sends next in this run and epoch."""
        return Address(self.receiver, receiver, self.run_id, table_id, self.epoch, index)


@dataclass(frozen=True, eq=False, repr=False)
class Message:
    """What one party tells another."""

    kind: ClassVar[str] = ""
    max_bytes: ClassVar[int] = 0
    codecs: ClassVar[Mapping[str, FieldCodec]] = {}

    address: Address

    def __post_init__(self) -> None:
        if not self.kind:
            raise WireError(f"{type(self).__name__} is not a kind of message")
        if type(self.address) is not Address:
            raise WireError(f"{self.kind}: address is not an Address")
        for name, codec in self.codecs.items():
            value = getattr(self, name)
            with _naming(f"{self.kind}: field {name}"):
                codec.check(value)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                frozen = value.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)
        self.check()

    def check(self) -> None:
        """What a kind of message demands of its fields together; raises a `Pv4fadError`."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in (
                (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = (f"{name}: {c.summary(getattr(self, name))}" for name, c in self.codecs.items())
        return f"<{type(self).__name__} {message_id(self)} [{'; '.join(sizes)}]>"


@dataclass(frozen=True)
class Header:
    """What a carrier needs to know of a message: what it is, from whom and to whom."""

    kind: str
    address: Address
    scalars: Mapping[str, int | str] = field(repr=False)
    """The fields that stand in the header itself: numbers, flags and texts."""


_KINDS: dict[str, type[Message]] = {}
M = TypeVar("M", bound=Message)


@dataclass_transform(frozen_default=True, eq_default=False)
def wire_message(kind: str, *, max_bytes: int) -> Callable[[type[M]], type[M]]:
    """Make a class a frozen dataclass and a kind of message of at most `max_bytes` encoded."""
    if not _KIND.fullmatch(kind) or kind in _KINDS:
        raise WireError(f"kind {kind!r} is malformed or taken")

    def register(cls: type[M]) -> type[M]:
        made = dataclass(frozen=True, eq=False, repr=False)(cls)
        hints = get_type_hints(cls)
        codecs = {}
        for one in fields(made)[1:]:
            if hints[one.name] not in CODECS:
                raise WireError(f"{kind}: field {one.name} has a type that cannot be sent")
            codecs[one.name] = CODECS[hints[one.name]]
        made.kind, made.max_bytes, made.codecs = kind, max_bytes, codecs
        _KINDS[kind] = made
        return made

    return register


def encode(message: Message) -> bytes:
    """The one encoding of a message."""
    described = [[n, c.name, c.describe(getattr(message, n))] for n, c in message.codecs.items()]
    header = _canonical({"address": _address_entry(message.address), "fields": described})
    if len(header) > MAX_HEADER_BYTES:
        raise WireError(f"{message.kind}: header of {len(header)} bytes is too long")
    kind = message.kind.encode()
    parts: list[Buffer] = [
        _PREFIX.pack(MAGIC, FORMAT_VERSION, len(kind), len(header)) + kind + header
    ]
    for name, codec in message.codecs.items():
        parts.extend(codec.payload(getattr(message, name)))
    n_bytes = sum(map(len, parts))
    if n_bytes > message.max_bytes:
        raise WireError(f"{message.kind}: {n_bytes} bytes, at most {message.max_bytes} are allowed")
    return b"".join(parts)


def decode(data: Buffer, limits: Mapping[str, int] | None = None) -> Message:
    """The message in `data`; `limits` (kind → bytes) replaces the limits of the classes."""
    cls, address, described, payload = _open(data, limits or {})
    values = {}
    with _naming(cls.kind):
        for (name, codec), description in zip(cls.codecs.items(), described, strict=True):
            with _naming(f"field {name}"):
                values[name] = codec.read(description, payload)
        if payload.n_left:
            raise WireError(f"{payload.n_left} bytes too many")
    try:
        return cls(address, **values)
    except WireError:
        raise
    except Pv4fadError as error:
        raise WireError(f"{cls.kind}: {error}") from error
    except Exception as error:  # a `check` that stumbles over what it should have refused
        raise WireError(f"{cls.kind}: {type(error).__name__} while it was checked") from error


def read_header(data: Buffer) -> Header:
    """The header of the message in `data`; the payload behind it is neither read nor checked."""
    cls, address, described, _ = _open(data, {})
    scalars = {}
    for (name, codec), value in zip(cls.codecs.items(), described, strict=True):
        if isinstance(codec, Scalar):
            with _naming(f"{cls.kind}: field {name}"):
                codec.check(value)
            scalars[name] = value
    return Header(cls.kind, address, scalars)


def read_field(data: Buffer, name: str) -> Any:
    """One field of the message in `data`; those behind it are neither read nor checked."""
    cls, _, described, payload = _open(data, {})
    with _naming(f"{cls.kind}: field {name}"):
        for (found, codec), description in zip(cls.codecs.items(), described, strict=True):
            value = codec.read(description, payload)
            if found == name:
                return value
        raise WireError("there is none")


def _open(
    data: Buffer, limits: Mapping[str, int]
) -> tuple[type[Message], Address, list[Any], PayloadReader]:
    """Kind, address, what the header says about each field, and the payload."""
    view = memoryview(data).cast("B")
    if len(view) < _PREFIX.size:
        raise WireError(f"truncated: {len(view)} bytes are no message")
    magic, version, n_kind, n_header = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise WireError("not a PV4FAD message")
    if version != FORMAT_VERSION:
        raise WireError(f"message format {version}, this program speaks {FORMAT_VERSION}")
    if n_header > MAX_HEADER_BYTES:
        raise WireError(f"header of {n_header} bytes is too long")
    payload = PayloadReader(view[_PREFIX.size :])
    kind = bytes(payload.take(n_kind)).decode("ascii", "replace")
    if kind not in _KINDS:
        raise WireError(f"unknown kind of message {kind[:64]!a}")
    cls = _KINDS[kind]
    largest = limits.get(kind, cls.max_bytes)
    if len(view) > largest:
        raise WireError(f"{kind}: {len(view)} bytes, at most {largest} are allowed")
    with _naming(kind):
        address, described = _parse_header(cls, bytes(payload.take(n_header)))
    return cls, address, described, payload


def message_id(message: Message | Header) -> str:
    """What a repeat of this message has in common with it; starts with the run, then the table."""
    return _id(message.kind, message.address)


def id_of(kind: type[Message], address: Address) -> str:
    """The id that a message of this kind has at this address."""
    return _id(kind.kind, address)


def kind_in_id(message_id: str) -> str:
    """The kind of the message that has this id; none if it is not one."""
    parts = message_id.split("/")
    return parts[3] if len(parts) > 3 else ""


def _id(kind: str, a: Address) -> str:
    path = (a.run_id, a.table_id, a.epoch, kind, a.index, a.sender, a.receiver)
    return "/".join(map(str, path))


def digest(data: Buffer) -> bytes:
    """SHA-256 of an encoded message."""
    return hashlib.sha256(data).digest()


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Say of what a `WireError` speaks."""
    try:
        yield
    except WireError as error:
        raise WireError(f"{where}: {error}") from None


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _address_entry(a: Address) -> list[str | int]:
    return [a.sender, a.receiver, a.run_id, a.table_id, a.epoch, a.index]


def _parse_header(cls: type[Message], raw: bytes) -> tuple[Address, list[Any]]:
    try:
        header = json.loads(raw, parse_float=_no_float, parse_constant=_no_float)
        canonical = _canonical(header)
    except (ValueError, RecursionError):
        raise WireError("the header is not JSON of integers, texts and lists") from None
    # One spelling only; this also refuses duplicate names, of which JSON would keep the last.
    if canonical != raw:
        raise WireError("the header is not canonical (spaces, order or duplicate entries)")
    if not isinstance(header, dict) or set(header) != {"address", "fields"}:
        raise WireError("the header must hold address and fields")
    address, described = header["address"], header["fields"]
    if not isinstance(address, list) or len(address) != 6 or not isinstance(described, list):
        raise WireError("the header must hold an address of six entries and a list of fields")
    if any(not isinstance(entry, list) or len(entry) != 3 for entry in described):
        raise WireError("a field is described by name, type and size")
    wanted = [[name, codec.name] for name, codec in cls.codecs.items()]
    if [entry[:2] for entry in described] != wanted:
        names = ", ".join(f"{name} ({kind})" for name, kind in wanted)
        raise WireError(f"expected the fields {names}, each once and in this order")
    return Address(*address), [description for _, _, description in described]


def _no_float(text: str) -> None:
    raise ValueError("no fractions, no infinities")
