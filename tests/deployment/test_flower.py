"""Flower as carrier: no app but ours is accepted, and no program outlives its starter."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import tomllib
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import pytest

from pv4fad.deployment.exchange import VERSION, Reply, Request, from_bytes, to_bytes
from pv4fad.deployment.flower.client_app import from_record, to_record
from pv4fad.deployment.flower.guarded import APP_FOLDER, REFUSED
from pv4fad.deployment.flower.programs import FlowerCarrier, FlowerProgram, flower_environment
from pv4fad.deployment.flower.station_socket import call, open_socket, receive, send
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.errors import DataError, StoreError, WireError

_HANDS_OUT = """
import sys
from importlib import import_module
from flwr.cli.build import build_fab_from_disk, build_fab_from_files
from pv4fad.deployment.flower import guarded
program, which = sys.argv[1:]
module, name = guarded._READS_APPS[program]
original = getattr(import_module(module), name)
guarded.refuse_other_apps(program)
check = getattr(import_module(module), name)
assert check is not original
ours = build_fab_from_disk(guarded.APP_FOLDER)
text = (guarded.APP_FOLDER / "pyproject.toml").read_text()
evil = text.replace("pv4fad.deployment.flower.client_app:app", "os:system")
app = ours if which == "ours" else build_fab_from_files({"pyproject.toml": evil.encode()})[0]
class Run: override_config = {}
arguments = [app] + ([Run()] if program == "flower-supernode" else [])
print(bool(check(*arguments)))
"""


@pytest.mark.parametrize("program", ["flower-supernode", "flower-superlink"])
@pytest.mark.parametrize("which", ["ours", "foreign"])
def test_only_our_app_is_accepted(program, which):
    done = subprocess.run(
        [sys.executable, "-c", _HANDS_OUT, program, which],
        capture_output=True,
        text=True,
        check=False,
    )
    if which == "ours":
        assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
    else:
        assert done.returncode == 1
        assert REFUSED in done.stderr


def test_a_party_that_speaks_another_format_has_another_app():
    app = tomllib.loads((APP_FOLDER / "pyproject.toml").read_text())
    assert app["project"]["version"].split(".")[0] == str(VERSION)


def test_a_program_ends_with_its_starter():
    command = (
        "from pv4fad.deployment.flower.guarded import _end_with_starter;"
        "print('started', flush=True); _end_with_starter()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline() == b"started\n"
        assert process.poll() is None
        process.stdin.close()  # as the end of the starter does
        assert process.wait(60) == -15


def test_records_give_back_what_was_put_there():
    for data in (b"", b"x" * 100_000):
        assert from_record(to_record(data)) == data


# The socket of a station.

REQUEST = Request("session")
REPLY = Reply("bank-a", "station", "session", {}, "idle")


def test_a_socket_carries_bytes_and_notices_when_they_end_early():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = Thread(target=send, args=(ours, b"x" * 100_000))
        sender.start()
        assert receive(theirs) == b"x" * 100_000
        sender.join()
        ours.sendall(struct.pack("<Q", 10) + b"short")
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(WireError, match="in the middle of an exchange"):
            receive(theirs)


def test_what_claims_to_be_huge_is_refused_before_it_is_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(struct.pack("<Q", 2**40))
        with pytest.raises(WireError, match="more than an exchange has"):
            receive(theirs)


def test_a_station_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match="does not answer"):
        call(tmp_path / "missing", b"")


def test_a_station_answers_requests_at_its_socket_and_drops_anything_else(caplog):
    with open_socket(lambda request: replace(REPLY, session=request.session)) as path:
        assert from_bytes(call(path, to_bytes(REQUEST)), Reply) == REPLY
        with pytest.raises(WireError, match="in the middle of an exchange"):
            call(path, b"not a request")
        assert from_bytes(call(path, to_bytes(REQUEST)), Reply) == REPLY
    assert "a request was lost" in caplog.text


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr("pv4fad.deployment.flower.programs.FLOWER_VERSION", "0.0.0")
    with pytest.raises(DataError, match=r"PV4FAD was tested with 0\.0\.0"):
        FlowerCarrier().version()


def test_the_reason_for_an_end_is_the_latest_one_in_the_log(tmp_path):
    log = tmp_path / "program.log"
    program = FlowerProgram(SimpleNamespace(returncode=7), log)
    log.write_text("all is well\n")
    assert program.why_it_ended() == f"exit code 7; its log is {log}"
    log.write_text("Address already in use\n...\nerror [code: 2004]\n")
    assert "does not know the key of this node" in program.why_it_ended()


def test_programs_run_without_telemetry_update_check_and_passphrase(tmp_path, monkeypatch):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", "correct horse battery")
    environment = flower_environment(PartyFolder(tmp_path))
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_HOME"].startswith(str(tmp_path))
    assert not [name for name in environment if name.startswith("PV4FAD_PASSPHRASE")]
