"""The hub: who is let in, what is passed on, and what a bad client can do."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack
from queue import SimpleQueue

import grpc
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from tests.kit.hub_world import PATIENCE_S, HubWorld, Scribe
from tests.kit.waiting import comes_true

from pv4fad.deployment.certificates import HUB_NAME, new_certificate
from pv4fad.deployment.envelope import PART_BYTES, Fragment
from pv4fad.deployment.exchange import Reply, Request, from_bytes, to_bytes
from pv4fad.deployment.hub import connection
from pv4fad.deployment.hub import server as server_module
from pv4fad.deployment.hub.carrier import HubCarrier, connected
from pv4fad.deployment.party_folder import KEY_FILE
from pv4fad.errors import StoreError
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK

BANKS = ["bank01", "bank02"]


@pytest.fixture
def world(tmp_path):
    return HubWorld(tmp_path, BANKS)


def numbers(n, seed=0):
    return np.random.default_rng(seed).integers(2**32, size=n, dtype=np.uint32)


# Who is let in.


MAY_NOT = "may not do this at this hub"


def refusal(world, credentials) -> tuple[str, str]:
    """What a client is told that asks for the status with these credentials."""
    address = f"127.0.0.1:{world.port}"
    options = [("grpc.ssl_target_name_override", HUB_NAME)]
    channel = (
        grpc.insecure_channel(address)
        if credentials is None
        else grpc.secure_channel(address, credentials, options)
    )
    with channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(connection.path(connection.STATUS))(b"", timeout=PATIENCE_S)
    return refused.value.code().name, refused.value.details()


def test_only_the_certificates_of_the_cards_are_let_in(world, tmp_path):
    hub = world.cards[AGGREGATOR].certificate.encode()
    key = world.folder("bank01").file(KEY_FILE)
    own = world.cards["bank01"].certificate.encode()
    foreign = new_certificate(tmp_path / "foreign.key").encode()
    with world.hub():
        assert world.start("check")  # by the aggregator, whose certificate is on its card
        nothing = grpc.ssl_channel_credentials(hub)
        stranger = grpc.ssl_channel_credentials(
            hub, (tmp_path / "foreign.key").read_bytes(), foreign
        )
        forged = grpc.ssl_channel_credentials(hub, *signed_by_a_bank(key, own, tmp_path))
        other_hub = grpc.ssl_channel_credentials(foreign, key.read_bytes(), own)
        for credentials in (None, nothing, stranger, other_hub):
            assert refusal(world, credentials)[0] == "UNAVAILABLE"
        assert refusal(world, forged) == ("PERMISSION_DENIED", f"an unknown party {MAY_NOT}")
        bank = grpc.ssl_channel_credentials(hub, key.read_bytes(), own)
        assert refusal(world, bank) == ("PERMISSION_DENIED", f"bank01 {MAY_NOT}")


def signed_by_a_bank(key_file, certificate, folder):
    """A bank vouches for another key: its certificate is not one of an authority."""
    new = new_certificate(folder / "forged.key")
    wanted = x509.load_pem_x509_certificate(new.encode())
    issuer = x509.load_pem_x509_certificate(certificate)
    signing = serialization.load_pem_private_key(key_file.read_bytes(), None)
    forged = (
        x509.CertificateBuilder()
        .subject_name(wanted.subject)
        .issuer_name(issuer.subject)
        .public_key(wanted.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(wanted.not_valid_before_utc)
        .not_valid_after(wanted.not_valid_after_utc)
        .sign(signing, hashes.SHA384())
    )
    pem = forged.public_bytes(serialization.Encoding.PEM)
    return (folder / "forged.key").read_bytes(), pem + certificate


def test_a_party_cannot_speak_for_another(world):
    """A bank whose station says that it is another bank."""
    with world.hub(), world.station(Scribe(PAYMENT_NETWORK)), world.station(Scribe(AGGREGATOR)):
        station = world.new_station(Scribe("bank02"))
        with connected(world.folder("bank01"), station):
            world.start("check")
            assert world.finished().error == "the station of bank02 answers for bank01"
        station.close()


def test_a_party_is_told_why_it_is_not_let_in(world, tmp_path):
    world.folder("bank01").file(KEY_FILE).unlink()
    other = new_certificate(world.folder("bank01").file(KEY_FILE))
    card = world.cards["bank01"].model_copy(update={"certificate": other})
    (world.root / "bank01" / "card.json").write_text(card.to_json())
    strange = HubWorld(tmp_path / "strange", ["bank02"])
    shutil.copy(
        strange.root / "bank02" / "cards" / "aggregator.json", world.root / "bank02" / "cards"
    )
    with world.hub():
        for name, reason in (
            ("bank01", "does not know this party's certificate"),
            ("bank02", "does not have the certificate on the aggregator's card"),
        ):
            station = world.new_station(Scribe(name))
            with connected(world.folder(name), station) as node:
                assert comes_true(lambda: reason in node.problem, PATIENCE_S), node.problem  # noqa: B023
            station.close()


def test_a_party_can_ask_whether_its_own_station_is_connected(world, command_line):
    asked = ("party", "online", world.root / "bank01")
    assert "the hub does not run" in command_line(*asked)[2]
    with world.hub():
        with world.station(Scribe("bank02")):
            code, _, said = command_line(*asked)
        assert (code, "the station of bank01 is not connected" in said) == (1, True)
        with world.station(Scribe("bank01")):
            assert command_line(*asked)[:2] == (0, "the station of bank01 is connected\n")


# Who may start jobs.


def test_banks_cannot_start_jobs_and_the_aggregator_decides_whether_the_network_can(tmp_path):
    open_, closed = (
        HubWorld(tmp_path / name, BANKS[:1], f"network-starts-jobs = {allowed}\n")
        for name, allowed in (("open", "true"), ("closed", "false"))
    )
    with open_.hub():
        with pytest.raises(StoreError, match="bank01 may not do this"):
            open_.start("check", by="bank01")
        assert open_.start("check", by=PAYMENT_NETWORK) == 1
        with pytest.raises(StoreError, match=r"job 1 \(check\): is running"):
            open_.start("check")
    with closed.hub():
        with pytest.raises(StoreError, match="payment-network may not do this"):
            closed.start("check", by=PAYMENT_NETWORK)
        with pytest.raises(StoreError, match="give one of check, train"):
            closed.start("fly")


# What is passed on.


def test_letters_of_many_parts_reach_their_banks_and_answers_come_back(world):
    network = Scribe(PAYMENT_NETWORK)
    network.letters = {bank: [numbers(10**6, i), numbers(3, i)] for i, bank in enumerate(BANKS)}
    with world.hub(), world.stations(network):
        world.start("train")
        status = world.finished()
    assert status.state == "finished"
    assert status.progress == "4 letters"
    for bank, sent in network.letters.items():
        assert all(
            np.array_equal(one + 1, other)
            for one, other in zip(sent, network.answers[bank], strict=True)
        )
    (way,) = [sent for sent in status.sent if sent.receiver == "bank01"]
    assert way.messages == 2
    assert way.bytes > 4 * 10**6


def test_a_broken_connection_loses_nothing_and_brings_nothing_twice(world):
    """All connections of a bank break a few times while letters are on their way."""
    network, bank = Scribe(PAYMENT_NETWORK), Scribe("bank01")
    network.letters = {"bank01": [numbers(10**6, i) for i in range(6)]}
    breaks = iter([True, False, True, True, False, False])
    nodes, broken = [], []

    def break_connection() -> None:
        if next(breaks):
            # The letter may have come over the connection that was broken last.
            assert comes_true(lambda: nodes[0]._call not in broken and nodes[0]._is_connected)
            broken.append(nodes[0]._call)
            broken[-1].cancel()

    bank.before_handling = break_connection
    others = [Scribe(AGGREGATOR), Scribe("bank02"), network]
    with world.hub(), ExitStack() as stack:
        for one in others:
            stack.enter_context(world.station(one))
        nodes.append(stack.enter_context(world.station(bank)))
        world.start("train")
        status = world.finished()
    assert status.state == "finished"
    assert status.sessions == 1
    assert status.parties["bank01"].failures >= 3
    assert bank.n_handled == 6
    for sent, answer in zip(network.letters["bank01"], network.answers["bank01"], strict=True):
        assert np.array_equal(sent + 1, answer)


def test_a_hub_that_was_killed_goes_on_with_its_job(world):
    network, bank = Scribe(PAYMENT_NETWORK), Scribe("bank01")
    network.letters = {"bank01": [numbers(10**6)]}
    held = threading.Event()
    bank.before_handling = lambda: held.wait(PATIENCE_S)
    with world.stations(network, bank, wait=False):
        with world.hub():
            assert world.start("train") == 1
            assert comes_true(lambda: world.status().parties["bank01"].bytes_to > 10**6, PATIENCE_S)
        held.set()
        with world.hub():
            status = world.finished()
    assert (status.number, status.job, status.state) == (1, "train", "finished")
    assert status.sessions == 2
    assert np.array_equal(network.letters["bank01"][0] + 1, network.answers["bank01"][0])


# Bad clients.


def raw_line(world, name, frames):
    """A client that sends these frames and reads nothing; returns its call."""
    channel = connection.dial(world.folder(name))
    return channel.stream_stream(connection.path(connection.EXCHANGE))(iter(frames))


def hello(name, session="", fragments=(), station="0"):
    return Reply(name, station, session, {}, "idle", fragments=fragments)


def waiting_frames(first, ended):
    yield from first
    ended.wait(PATIENCE_S)


@pytest.mark.parametrize("trouble", ["silent", "oversized", "rubbish", "flood"])
def test_a_bad_client_does_not_hold_up_the_others(world, monkeypatch, trouble):
    """bank02 misbehaves while a job of the others runs, and takes no part in it."""
    monkeypatch.setattr(server_module, "_EMPTY_PER_S", 50)
    network = Scribe(PAYMENT_NETWORK)
    network.letters = {"bank01": [numbers(10**6)]}
    ended = threading.Event()
    frames = {
        "silent": [to_bytes(hello("bank02"))],
        "oversized": [b"\0" * (connection.MESSAGE_BYTES + 1)],
        "rubbish": [b"\0" * 100],
        "flood": [to_bytes(hello("bank02"))] * 1000,
    }[trouble]
    with world.hub(), world.station(network), world.station(Scribe(AGGREGATOR)):
        bad = raw_line(world, "bank02", waiting_frames(frames, ended))
        with world.station(Scribe("bank01")):
            world.start("train")
            assert comes_true(lambda: network.answers.get("bank01"), PATIENCE_S)
        ended.set()
        if trouble != "silent":
            with pytest.raises(grpc.RpcError) as refused:
                list(bad)
            expected = "RESOURCE_EXHAUSTED" if trouble == "oversized" else "INVALID_ARGUMENT"
            assert refused.value.code().name in (expected, "CANCELLED")
        bad.cancel()


def test_more_than_a_window_is_refused(world):
    """bank02 sends without waiting for anybody to receive."""
    said = SimpleQueue()
    with world.hub(), world.station(Scribe(PAYMENT_NETWORK)), world.station(Scribe(AGGREGATOR)):
        world.start("check")
        said.put(to_bytes(hello("bank02")))
        bad = raw_line(world, "bank02", iter(said.get, None))
        session = from_bytes(next(bad), Request).session
        for i in range(40):
            part = Fragment("bank02", "bank01", "f", "e", i, 900, bytes(PART_BYTES), i + 1)
            said.put(to_bytes(hello("bank02", session, (part,))))
        assert "bank02 sends more to bank01 at a time than was agreed" in world.finished().error
        said.put(None)


def test_the_hub_says_that_its_port_is_in_use(world):
    station = world.new_station(Scribe(AGGREGATOR))
    with world.hub(), pytest.raises(StoreError, match="is the port in use"):
        HubCarrier().serve(world.folder(AGGREGATOR), station, threading.Event(), lambda: None)
    station.close()
