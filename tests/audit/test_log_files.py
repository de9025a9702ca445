"""Whatever somebody has written into a log or a witness's file, its reader gets one clear error."""

import json
from copy import deepcopy

import pytest
from tests.kit.pair import ONE, TWO, Pair

from pv4fad.audit.log_file import LogFile
from pv4fad.audit.verify import verify_logs
from pv4fad.audit.witness import Witness
from pv4fad.errors import DataError

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
