"""Handing over: the bank concerned gets payment, account and level, once; nobody else anything."""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kit.class_world import make_class_world
from tests.kit.live_service import (
    Service,
    free_port,
    hidden,
    live_service,
    live_world,
    serving,
)
from tests.kit.waiting import comes_true

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.envelope import Assembly, Correspondence
from pv4fad.errors import OrderError, ProtocolError, WireError
from pv4fad.protocol.identity import create_identity
from pv4fad.protocol.notify.bank import notices
from pv4fad.protocol.notify.messages import BODY_BYTES, Notify, notice
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.service import notices as outbox
from pv4fad.service.access import Tokens
from pv4fad.service.inbox import inbox_app
from pv4fad.service.server import Listen
from pv4fad.store.store import MemoryStore

ADDRESS = Address(PAYMENT_NETWORK, "bank01", "run-1", index=7)


# The message.


def test_all_notices_have_the_same_size():
    sizes = {
        len(encode(notice(ADDRESS, reference, account, level)))
        for reference, account, level in (
            ("a", "b", 1),
            ("r" * 250, "a" * 250, 3),
            ("ä" * 30, "", 2),
        )
    }
    assert len(sizes) == 1


def test_a_notice_says_what_was_put_in():
    sent = notice(ADDRESS, 'PAY"1', "DE89 ü", 3)
    got = decode(encode(sent))
    assert isinstance(got, Notify)
    assert got.content() == ('PAY"1', "DE89 ü", 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        json.dumps(["a", "b", 4]).encode(),
        json.dumps(["a", "b", True]).encode(),
        json.dumps(["a", 1, 1]).encode(),
        json.dumps(["a", "b", 1, 2]).encode(),
        b"\xff" * 10,
    ],
)
def test_other_content_is_refused(body):
    with pytest.raises(WireError):
        Notify(ADDRESS, body.ljust(BODY_BYTES))
    with pytest.raises(WireError):
        Notify(ADDRESS, body)


# The bank's part, with a model that was really trained.


@pytest.fixture(scope="module")
def trained():
    world = make_class_world(1, n_banks=2)
    world.train()
    return world


def test_a_bank_keeps_a_notice_once_and_always_gives_the_same_receipt(trained):
    bank = trained.federation.banks[0]
    run = trained.parameters.run_id
    message = encode(notice(Address(PAYMENT_NETWORK, bank.name, run, index=1), "P1", "A1", 2))
    (receipt,) = bank.handle(message)
    assert isinstance(decode(receipt), Receipt)
    assert bank.handle(message) == [receipt]
    other = encode(notice(Address(PAYMENT_NETWORK, bank.name, run, index=1), "P2", "A1", 2))
    with pytest.raises(OrderError, match="other content"):
        bank.handle(other)
    assert [(one.reference, one.account, one.level) for one in notices(bank.store)] == [
        ("P1", "A1", 2)
    ]
    # The payment network takes the receipt and is as it was.
    assert trained.federation.payment_network.handle(receipt) == []


def test_only_the_payment_network_sends_notices_and_only_of_a_run_with_a_model(trained):
    bank, other = trained.federation.banks
    run = trained.parameters.run_id
    for sender in (other.name, "aggregator"):
        with pytest.raises(ProtocolError, match="takes no such message"):
            bank.handle(encode(notice(Address(sender, bank.name, run, index=3), "P", "A", 1)))
    with pytest.raises(OrderError, match="no model"):
        bank.handle(encode(notice(Address(PAYMENT_NETWORK, bank.name, "run-x"), "P", "A", 1)))
    with pytest.raises(ProtocolError, match="reached"):
        bank.handle(encode(notice(Address(PAYMENT_NETWORK, other.name, run), "P", "A", 1)))


# From the desk to the inbox, sealed on the way.


class SealedCarrier:
    """Seals as a deployed federation does; the bank can be unreachable for a while."""

    def __init__(self, trained, keys: Path) -> None:
        self.banks = {bank.name: bank for bank in trained.federation.banks}
        names = [PAYMENT_NETWORK, *self.banks]
        identities = {name: create_identity(MemoryStore(name)) for name in names}
        cards = {
            name: PartyCard(
                role=PAYMENT_NETWORK if name == PAYMENT_NETWORK else "bank",
                name=name,
                identity=identity.public().to_bytes().hex(),
                certificate=new_certificate(keys / f"{name}.key"),
            )
            for name, identity in identities.items()
        }
        self.posts = {name: Correspondence(one, cards) for name, one in identities.items()}
        self.reachable = False
        self.sealed: list[bytes] = []

    async def carry(self, bank: str, message: bytes) -> bytes:
        if not self.reachable:
            raise ConnectionError
        (there,) = self.posts[PAYMENT_NETWORK].seal(bank, message)
        self.sealed.append(there.body)
        for name in self.banks.keys() - {bank}:
            with pytest.raises(ProtocolError):
                self.posts[name].open(there)
        opened = Assembly(self.posts[bank]).add(there)
        assert opened is not None
        (reply,) = await asyncio.to_thread(self.banks[bank].handle, opened)
        (back,) = self.posts[bank].seal(PAYMENT_NETWORK, reply)
        return self.posts[PAYMENT_NETWORK].open(back)


def test_a_hand_over_reaches_the_inbox_of_its_bank_and_no_other(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "AGAIN_AFTER_S", 0.1)
    carrier = SealedCarrier(trained, tmp_path)
    before = {bank.name: len(notices(bank.store)) for bank in trained.federation.banks}
    run = trained.parameters.run_id
    with live_service(tmp_path, carrier=carrier, run_id=run) as service:
        answers = service.post("/payments/batch", live_world().payments).json()
        alerts = [one for one in answers if one["alert"]]
        person = service.log_in()
        number, side, bank = next(found(person, range(len(alerts))))
        form = {"csrf": hidden(person.get("/").text), "confirm": "yes"}
        person.post(f"/alerts/{number}/hand-over/{side}", data=form)
        assert "not delivered yet" in person.get(f"/alerts/{number}").text
        carrier.reachable = True
        assert comes_true(lambda: "; delivered 20" in person.get(f"/alerts/{number}").text, 30)
    received = notices(carrier.banks[bank].store)
    assert len(received) == before[bank] + 1
    assert (received[0].reference, received[0].level) == (
        alerts[number]["id"],
        alerts[number]["level"],
    )
    for name, other in carrier.banks.items():
        if name != bank:
            assert len(notices(other.store)) == before[name]
    assert alerts[number]["id"].encode() not in b"".join(carrier.sealed)
    shown = inbox_page(tmp_path, bank, carrier.banks[bank].store)
    assert alerts[number]["id"] in shown
    assert received[0].account in shown
    assert f"level {received[0].level}" in shown


def found(person, numbers):
    for number in numbers:
        page = person.get(f"/alerts/{number}").text
        for side in ("ordering", "beneficiary"):
            link = f'hand-over/{side}">Hand over to '
            if link in page:
                yield number, side, page.split(link)[1].split(" ")[0]


def inbox_page(tmp_path, bank, store) -> str:
    folder = tmp_path / bank
    folder.mkdir()
    token = Tokens(folder).create("bob", "desk")
    listen = Listen(port=free_port())
    app = inbox_app(folder, bank, lambda: notices(store))
    with serving(app, listen), ExitStack() as opened:
        inbox = Service(listen, folder, None, {"desk": token}, opened)
        assert inbox.stranger().get("/").status_code == 303
        person = inbox.log_in()
        assert person.get("/?text=nothing+like+this").text.count("<td") == 0
        return person.get("/").text
