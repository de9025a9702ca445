"""Whatever somebody has written into a log or a witness's file, its reader gets one clear error."""

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from tests.kit.pair import ONE, TWO, Pair

from pv4fad.audit.log_file import LogFile
from pv4fad.audit.verify import verify_logs
from pv4fad.audit.verify_chain import Fault
from pv4fad.audit.witness import Witness
from pv4fad.errors import DataError
from pv4fad.privacy.ledger import (
    Expense,
    Restored,
    note_restored,
    raw_entries,
    set_delta_limit,
    set_limit,
    spend,
)
from pv4fad.store.store import MemoryStore, Transaction

NOW = datetime(2026, 1, 3, 12, tzinfo=UTC)

ODD = (None, "", "zz", "ZZ", "0", "x" * 5000, -1, 2**64, 2**70, 0.5, True, [], {}, [None], "\n")
MARK = {
    "session": "ab",
    "sender": ONE,
    "receiver": TWO,
    "key": "0" * 64,
    "number": 1024,
    "head": "0" * 64,
    "seen_number": 0,
    "seen_head": "0" * 64,
    "time_ms": 1,
    "signature": "0" * 128,
}


def places(content, path=()):
    yield path
    if isinstance(content, dict | list):
        for name in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[name], (*path, name))


def odd(content):
    """The content with each of its values replaced by others in turn."""
    for path in list(places(content)):
        for value in ODD:
            changed = [deepcopy(content)]
            inside = changed
            for name in (0, *path)[:-1]:
                inside = inside[name]
            inside[(0, *path)[-1]] = value
            yield json.dumps(changed[0])


@pytest.fixture(scope="module")
def pair() -> Pair:
    pair = Pair()
    pair.deliver(pair.send(ONE, 0))
    pair.deliver(pair.send(TWO, 0), ONE)
    return pair


def test_a_log_with_an_odd_value_is_refused_or_compared(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(LogFile, "is_whole", True)  # as if its owner had signed it
    logs, file = pair.logs(), tmp_path / "log.json"
    content = json.loads(logs[ONE].to_json()) | {"live": [MARK]}
    refused = []
    for text in odd(content):
        file.write_text(text)
        try:
            log = LogFile.read(file)
        except DataError as error:
            refused.append(str(error))
        else:
            verify_logs([log] if log.party == TWO else [log, logs[TWO]])
    assert len(refused) > 200
    assert all(str(file) in one for one in refused)


def spent_on(run_id: str, epsilon: Fraction) -> Callable[[Transaction], None]:
    release = Expense(run_id, epsilon, 2, "a record", "distributed", "ab", NOW, 1)

    def write(tx: Transaction) -> None:
        set_limit(tx, Fraction(3), NOW)
        spend(tx, release)

    return write


NOT_A_NAME = "bank02\x1b[2J\x1b[1mall logs fit together\n"


@pytest.mark.parametrize(
    "where",
    [
        ("party",),
        ("chains", 0, "other"),
        ("chains", 0, "messages", 0, "message"),
        ("live", 0, "sender"),
        ("live", 0, "receiver"),
        ("no such field",),
    ],
    ids=str,
)
def test_nothing_in_a_log_can_write_over_the_terminal_of_its_reader(pair, tmp_path, where):
    content = json.loads(pair.logs()[ONE].to_json()) | {"live": [MARK]}
    inside, file = content, tmp_path / "log.json"
    for name in where[:-1]:
        inside = inside[name]
    inside[NOT_A_NAME if where[-1] == "no such field" else where[-1]] = NOT_A_NAME
    file.write_text(json.dumps(content))
    with pytest.raises(DataError) as refusal:
        LogFile.read(file)
    assert str(refusal.value).isprintable()


def test_a_run_in_a_ledger_has_a_name(pair):
    content = json.loads(as_kept(ENTRIES["expense"])[1]) | {"run_id": NOT_A_NAME}
    (fault,) = verify_logs([with_entries(pair.logs()[ONE], (json.dumps(content),))]).faults
    assert fault == Fault(ONE, "its ledger cannot be read")


ENTRIES: dict[str, Callable[[Transaction], None]] = {
    "limit": lambda tx: set_limit(tx, Fraction(3), NOW),
    "limit of δ": lambda tx: set_delta_limit(tx, Fraction(1, 2**20), NOW),
    "restored": lambda tx: note_restored(tx, Restored(7, "ab" * 32, Fraction(1, 4), (TWO,), NOW)),
    "expense": spent_on("run", Fraction(1)),
}
AMOUNTS = ("1/0", "1e999999999", "1e5000", "9" * 3000, "1/" + "9" * 3000, "nan", "none", "-1", 5.5)


def as_kept(write: Callable[[Transaction], None]) -> tuple[str, ...]:
    with MemoryStore(ONE).transaction() as tx:
        write(tx)
        return tuple(entry.decode() for entry in raw_entries(tx))


def with_entries(log: LogFile, entries: tuple[str, ...]) -> LogFile:
    return log.model_copy(update={"ledger": log.ledger.model_copy(update={"entries": entries})})


@pytest.mark.parametrize("write", ENTRIES.values(), ids=ENTRIES)
def test_a_ledger_with_an_odd_value_cannot_be_read_or_is_compared(pair, write):
    """A bank can sign what it likes; an auditor gets a sentence about it."""
    *before, entry = as_kept(write)
    log, content, n_refused = pair.logs()[ONE], json.loads(entry), 0
    amounts = (json.dumps(content | {"epsilon": one, "delta": one}) for one in AMOUNTS)
    named = ("epsilon", "delta", "time", "head", "entries", "run_id", "witnesses")
    changed = (
        json.dumps(content | {name: odd})
        for name in named
        for odd in (*AMOUNTS, "0001-01-01T00:00:00+14:00", [[]], 2**70)
        if name in content
    )
    texts = ("", "null", "5", "[]", "{}", "[" * 10**5, '{"a":' * 10**5, "\ud800", *odd(content))
    for text in (*texts, *amounts, *changed):
        found = verify_logs([with_entries(log, (*before, text)), pair.logs()[TWO]])
        n_refused += Fault(ONE, "its ledger cannot be read") in found.faults
    assert n_refused > 100
    assert verify_logs([with_entries(log, (*before, entry))]).faults == ()


def test_amounts_that_become_long_when_they_are_added_are_refused(pair):
    amounts = [Fraction(1, 10**600 + 2 * n + 1) for n in range(9)]
    entries = tuple(as_kept(spent_on(f"run{n}", one))[1] for n, one in enumerate(amounts))
    log = pair.logs()[ONE]
    assert (
        Fault(ONE, "its ledger cannot be read")
        not in verify_logs([with_entries(log, entries[:1])]).faults
    )
    (fault,) = verify_logs([with_entries(log, entries)]).faults
    assert fault == Fault(ONE, "its ledger cannot be read")


def test_a_log_in_which_anything_was_changed_is_refused(pair, tmp_path):
    """Each number, and a digit of each text, in turn; however it is formatted, it is the same."""
    file = tmp_path / "log.json"
    content = json.loads(pair.logs()[ONE].to_json())
    file.write_text(json.dumps(content))
    assert LogFile.read(file) == pair.logs()[ONE]
    n_changed = 0
    for text in slightly_changed(content):
        n_changed += 1
        file.write_text(text)
        with pytest.raises(DataError):
            LogFile.read(file)
    assert n_changed > 30


def slightly_changed(content):
    for path in list(places(content)):
        changed = deepcopy(content)
        *names, name = path or ("format",)
        inside = changed
        for one in names:
            inside = inside[one]
        value = inside[name]
        if isinstance(value, str) and value:
            inside[name] = value[:-1] + ("0" if value[-1] != "0" else "1")
        elif isinstance(value, int):
            inside[name] = value + 1
        elif isinstance(value, list) and value:
            inside[name] = value[:-1]
        else:
            continue
        yield json.dumps(changed)


def test_the_file_of_a_witness_with_an_odd_value_is_refused_or_read(pair, tmp_path):
    key, file = pair.keys[ONE], tmp_path / "witness.json"
    witness = Witness.of(pair.stores[TWO], pair.identities[TWO], ONE, key, "c0de")
    refused = []
    for text in odd(json.loads(witness.to_json())):
        file.write_text(text)
        try:
            found = Witness.read(file)
        except DataError as error:
            refused.append(str(error))
        else:
            assert [m.head for m in found.received if m.is_signed_by(key, ONE, TWO)] != [b""]
    assert len(refused) > 100
    assert all(str(file) in one for one in refused)
