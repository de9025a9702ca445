"""Messages survive the wire unchanged, have one encoding each, and bad bytes raise `WireError`."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pv4fad.errors import ParameterError, WireError
from pv4fad.protocol.wire import (
    Address,
    Message,
    decode,
    digest,
    encode,
    message_id,
    read_field,
    read_header,
    wire_message,
)


@wire_message("test-everything", max_bytes=1_000_000)
class Everything(Message):
    count: int
    flag: bool
    note: str
    blob: bytes
    items: tuple[bytes, ...]
    sizes: tuple[int, ...]
    residues: NDArray[np.uint64]
    sums: NDArray[np.int64]
    bits: NDArray[np.uint8]


@wire_message("test-residues", max_bytes=2**28)
class Residues(Message):
    values: NDArray[np.uint64]


@wire_message("test-checked", max_bytes=1000)
class Checked(Message):
    share: int

    def check(self) -> None:
        if self.share == 13:
            raise ParameterError("share 13 is out of range")
        if self.share == 14:
            raise ZeroDivisionError


ADDRESS = Address("bank-a", "payment-network", "run-1", "table-2", epoch=3, index=4)
EXAMPLE = Everything(
    ADDRESS,
    count=-5,
    flag=True,
    note="ε",
    blob=b"\x00\xff",
    items=(b"one", b"", b"three"),
    sizes=(1, -(2**63)),
    residues=np.array([[1, 2], [3, 2**64 - 1]], np.uint64),
    sums=np.array([-1], np.int64),
    bits=np.zeros((2, 0), np.uint8),
)

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,20}", fullmatch=True)
int64 = st.integers(-(2**63), 2**63 - 1)
addresses = st.builds(
    Address, names, names, names, names | st.just(""), st.integers(0, 2**53), st.integers(0, 9)
)


def arrays(dtype, low, high):
    return st.builds(
        lambda shape, seed: np.random.default_rng(seed).integers(
            low, high, shape, dtype, endpoint=True
        ),
        st.lists(st.integers(0, 4), max_size=4),
        st.integers(0, 2**32),
    )


messages = st.builds(
    Everything,
    addresses,
    int64,
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
    st.lists(st.binary(max_size=9), max_size=5).map(tuple),
    st.lists(int64, max_size=5).map(tuple),
    arrays(np.uint64, 0, 2**64 - 1),
    arrays(np.int64, -(2**63), 2**63 - 1),
    arrays(np.uint8, 0, 255),
)


@given(messages)
def test_a_message_survives_the_wire(message):
    received = decode(encode(message))
    assert received == message
    assert type(received) is Everything
    assert encode(received) == encode(message)


@given(messages)
def test_the_header_of_a_message_is_that_of_the_decoded_message(message):
    data = encode(message)
    header, received = read_header(data), decode(data)
    assert (header.kind, header.address) == (received.kind, received.address)
    assert message_id(header) == message_id(received)
    assert header.scalars == {
        "count": received.count,
        "flag": received.flag,
        "note": received.note,
    }


@given(messages)
def test_one_field_is_that_of_the_decoded_message(message):
    data = encode(message)
    received = decode(data)
    for name in Everything.codecs:
        assert np.array_equal(read_field(data, name), getattr(received, name))
    with pytest.raises(WireError, match="field other: there is none"):
        read_field(data, "other")


def header_bytes(data):
    """How many bytes stand before the payload."""
    _, _, n_kind, n_header = struct.unpack_from("<4sHBI", data)
    return 11 + n_kind + n_header


@given(messages, st.data())
def test_a_header_that_is_cut_off_is_refused_and_the_payload_is_not_read(message, data):
    whole = encode(message)
    end = header_bytes(whole)
    with pytest.raises(WireError):
        read_header(whole[: data.draw(st.integers(0, end - 1))])
    assert read_header(whole[:end]) == read_header(whole)


def test_bytes_of_format_version_5_never_change():
    header = (
        b'{"address":["bank-a","payment-network","run-1","table-2",3,4],"fields":['
        b'["count","int",-5],["flag","bool",true],["note","str","\\u03b5"],["blob","bytes",2],'
        b'["items","bytes[]",3],["sizes","int[]",2],["residues","uint64",[2,2]],'
        b'["sums","int64",[1]],["bits","uint8",[2,0]]]}'
    )
    expected = (
        b"PV4M\x05\x00\x0f" + struct.pack("<I", len(header)) + b"test-everything" + header
        + b"\x00\xff"
        + bytes([3, *7 * [0], *8 * [0], 5, *7 * [0]]) + b"onethree"
        + bytes([1, *7 * [0], *7 * [0], 0x80])
        + bytes([1, *7 * [0], 2, *7 * [0], 3, *7 * [0]]) + 8 * b"\xff"
        + 8 * b"\xff"
    )  # fmt: skip
    assert encode(EXAMPLE) == expected
    assert decode(expected) == EXAMPLE
    assert digest(expected).hex() == (
        "a4ce68b9dba61a5361cce43bbc448618994f82913e6b8894de72ff344c615130"
    )


def assert_refused_or_canonical(data):
    """Only `WireError` may come out, or a message whose one encoding these bytes are.

    The header can be read of every message, and of others only if their payload is at fault.
    """
    header = None
    try:
        header = read_header(data)
        message = decode(data)
    except WireError:
        if header is None:
            with pytest.raises(WireError):
                decode(data)
        return
    assert (header.kind, header.address) == (message.kind, message.address)
    assert type(message) in (Everything, Residues, Checked)
    assert encode(message) == data


@settings(max_examples=400)
@given(messages, st.data())
def test_mutated_messages_are_refused_or_are_other_valid_messages(message, data):
    mutated = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(mutated)))
        length = data.draw(st.integers(0, 8))
        mutated[start : start + length] = data.draw(st.binary(max_size=8))
    assert_refused_or_canonical(bytes(mutated))


def envelope(header, payload=b"", kind=b"test-everything", version=5):
    return struct.pack("<4sHBI", b"PV4M", version, len(kind), len(header)) + kind + header + payload


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=250)
@given(st.data(), st.binary(max_size=60))
def test_well_formed_headers_with_wrong_contents_are_refused(data, payload):
    entry = ["bank-a", "payment-network", "run-1", "", 0, 0]
    fields = [[n, c.name, data.draw(json_values)] for n, c in Everything.codecs.items()]
    if data.draw(st.booleans()):
        entry[data.draw(st.integers(0, 5))] = data.draw(json_values)
    header = {"address": entry, "fields": fields}
    raw = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    assert_refused_or_canonical(envelope(raw, payload))


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    for read in (decode, read_header):
        with pytest.raises(WireError):
            read(data)
    assert_refused_or_canonical(envelope(data))


def residues_header(shape, name="values", kind="uint64"):
    address = ["a", "b", "r", "", 0, 0]
    header = {"address": address, "fields": [[name, kind, shape]]}
    return json.dumps(header, separators=(",", ":")).encode()


def residues(header, payload=b""):
    return envelope(header, payload, b"test-residues")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"PV5M" + encode(EXAMPLE)[4:], "not a PV4FAD message"),
        (envelope(b"{}", version=1), "message format 1, this program speaks 5"),
        (envelope(b"{}", kind=b"pickle"), "unknown kind of message 'pickle'"),
        (encode(EXAMPLE)[:-1], "field sums: truncated"),
        (encode(EXAMPLE) + b"\0", "1 bytes too many"),
        (encode(EXAMPLE).replace(b'"flag"', b'"flog"'), "expected the fields count"),
        (encode(EXAMPLE).replace(b"true", b"2   "), "not canonical"),
        (envelope(b'{"address":[],"address":[],"fields":[]}'), "not canonical"),
        (envelope(b'{"address":[],"fields":[]}'), "six entries"),
        (envelope(b'{"fields":[]}'), "must hold address"),
        (envelope(b"[" * 60_000), "not JSON"),
        (envelope(b"9" * 5_000), "not JSON"),
        (envelope(b"NaN"), "not JSON"),
        (envelope(b"\xff\xfe"), "not JSON"),
        (envelope(b" " * 70_000), "header of 70000 bytes is too long"),
        (residues(residues_header([1.5]), bytes(8)), "not JSON"),
        (residues(residues_header([-1])), "a length outside"),
        (residues(residues_header([True])), "expected int, got bool"),
        (residues(residues_header([1e999])), "not JSON"),
        (residues(residues_header([2**60])), "truncated: 9223372036854775808 bytes announced"),
        (residues(residues_header([0, 2**62, 2**62])), "impossible shape"),
        (residues(residues_header([1] * 5), bytes(8)), "5 dimensions"),
        (residues(residues_header(7)), "expected list, got int"),
        (residues(residues_header([1], kind="int64"), bytes(8)), "values .uint64."),
        (residues(residues_header([1], name="value"), bytes(8)), "expected the fields values"),
    ],
)
def test_malformed_bytes_are_refused_with_the_reason(data, reason):
    with pytest.raises(WireError, match=reason):
        decode(data)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"true", b"1234", "field flag: expected bool, got int"),
        (b'"flag"', b'"flog"', "expected the fields count"),
        (b"run-1", b"run/1", "run_id needs"),
        (b"test-everything", b"test-nothing123", "unknown kind of message"),
    ],
)
def test_a_malformed_header_is_refused_with_the_reason(old, new, reason):
    data = encode(EXAMPLE).replace(old, new)
    for read in (decode, read_header):
        with pytest.raises(WireError, match=reason):
            read(data)


def test_more_items_than_bytes_are_refused_before_anything_is_allocated():
    raw = encode(EXAMPLE)
    for huge in (b"999999", b"99999999999999999"):
        header_growth = len(huge) - 1
        grown = raw.replace(b'"bytes[]",3]', b'"bytes[]",' + huge + b"]")
        (n_header,) = struct.unpack_from("<I", raw, 7)
        grown = grown[:7] + struct.pack("<I", n_header + header_growth) + grown[11:]
        with pytest.raises(WireError, match=r"field items: (truncated|a length outside)"):
            decode(grown)


def test_an_item_longer_than_the_message_is_refused():
    raw = encode(EXAMPLE)
    item_lengths = bytes([3, *7 * [0]])
    with pytest.raises(WireError, match="field items: truncated"):
        decode(raw.replace(item_lengths, 8 * b"\xff", 1))


def test_messages_beyond_their_size_limit_are_refused_on_both_sides():
    with pytest.raises(WireError, match=r"test-everything: .* at most 1000000"):
        encode(Everything(ADDRESS, 0, False, "", bytes(10**6), (), (), *empty_arrays()))
    data = encode(EXAMPLE)
    with pytest.raises(WireError, match="at most 100 are allowed"):
        decode(data, {"test-everything": 100})
    assert decode(data, {"test-everything": len(data), "test-residues": 0}) == EXAMPLE


def empty_arrays():
    return np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint8)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("count", 2**63, "count: integer outside 64 bits"),
        ("count", True, "count: expected int, got bool"),
        ("count", np.int64(1), "count: expected int, got int64"),
        ("flag", 1, "flag: expected bool"),
        ("note", "x" * 4097, "note: text of 4097 bytes"),
        ("note", "\ud800", "note: text with a lone surrogate"),
        ("blob", bytearray(1), "blob: expected bytes"),
        ("items", [b""], "items: expected tuple"),
        ("items", ("",), "items: expected bytes, got str"),
        ("sizes", (2**63,), "sizes: integer outside 64 bits"),
        ("residues", np.zeros(1, np.int64), "residues: an array of int64, expected uint64"),
        ("residues", np.zeros(1), "residues: an array of float64"),
        ("sums", [1], "sums: expected ndarray"),
        ("bits", np.zeros((1,) * 5, np.uint8), "bits: an array of 5 dimensions"),
        ("address", ("a", "b"), "address is not an Address"),
    ],
)
def test_a_message_with_a_wrong_field_cannot_be_made(field, value, reason):
    values = {n: getattr(EXAMPLE, n) for n in ("address", *Everything.codecs)}
    with pytest.raises(WireError, match=reason):
        Everything(**(values | {field: value}))


@pytest.mark.parametrize(
    "fields",
    [
        {"sender": ""},
        {"receiver": "a/b"},
        {"run_id": "x" * 129},
        {"run_id": "ü"},
        {"run_id": "a\n"},
        {"table_id": "-"},
        {"epoch": -1},
        {"epoch": True},
        {"index": 2**53 + 1},
    ],
)
def test_malformed_addresses_are_refused(fields):
    good = {"sender": "a", "receiver": "b", "run_id": "r"}
    with pytest.raises(WireError, match=next(iter(fields))):
        Address(**(good | fields))


def test_what_a_kind_demands_is_checked_on_arrival():
    good = encode(Checked(ADDRESS, 12))
    with pytest.raises(ParameterError):
        Checked(ADDRESS, 13)
    for share, reason in (("13", "test-checked: share 13 is out of range"), ("14", "ZeroDivision")):
        with pytest.raises(WireError, match=reason):
            decode(good.replace(b'"int",12', b'"int",' + share.encode()))


def test_decoded_arrays_are_read_only_aligned_and_own_their_memory():
    source = np.arange(6, dtype=np.uint64)[::2]
    message = Residues(ADDRESS, source)
    received = decode(encode(message))
    assert received == message
    for values in (received.values, message.values):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
    assert received.values.flags.aligned
    assert received.values.dtype == np.uint64
    source[0] = 1  # the caller's own array stays writable


def test_a_large_message_survives():
    values = np.random.default_rng(1).integers(0, 2**63, 3_000_000, np.uint64)
    assert np.array_equal(decode(encode(Residues(ADDRESS, values))).values, values)


def test_repr_shows_kind_address_and_sizes_but_no_payload():
    text = repr(EXAMPLE)
    assert text.startswith("<Everything run-1/table-2/3/test-everything/4/bank-a/payment-network [")
    assert "items: 3 items, 8 bytes" in text
    assert "residues: uint64 2×2, 32 bytes" in text
    for secret in ("-5", "True", "ε", "xff", "one", str(2**64 - 1)):
        assert secret not in text
        assert secret not in repr(read_header(encode(EXAMPLE)))
    assert repr((EXAMPLE,)) == f"({text},)"


def test_message_id_names_kind_and_address_and_nothing_else():
    def checked(share=1, **changes):
        fields = {"sender": "a", "receiver": "b", "run_id": "r"} | changes
        return message_id(Checked(Address(**fields), share))

    assert checked(1) == checked(2)
    changes = {"sender": "c", "receiver": "c", "run_id": "c", "table_id": "c", "epoch": 1}
    ids = {checked(), checked(index=1), *(checked(**{k: v}) for k, v in changes.items())}
    assert len(ids) == 7
    assert message_id(Residues(Address("a", "b", "r"), np.zeros(1, np.uint64))) not in ids
    assert all(one.startswith(("r/", "c/")) for one in ids)


def test_kinds_are_unique_and_only_known_types_travel():
    with pytest.raises(WireError, match="taken"):
        wire_message("test-checked", max_bytes=1)
    with pytest.raises(WireError, match="malformed"):
        wire_message("Bad Kind", max_bytes=1)
    with pytest.raises(WireError, match="field share has a type that cannot be sent"):

        @wire_message("test-float", max_bytes=1)
        class Unsendable(Message):
            share: float

    with pytest.raises(WireError, match="not a kind of message"):
        Message(ADDRESS)
