"""Handing over: the bank concerned gets payment, account and level, once; nobody else anything."""

import asyncio
import json
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.kit.class_world import make_class_world
from tests.kit.hub_world import HubWorld, Scribe
from tests.kit.live_service import (
    Service,
    free_port,
    hidden,
    live_service,
    live_world,
    serving,
)
from tests.kit.waiting import comes_true

from pv4fad.deployment.bank_answers import NOT_YET, BankAnswers
from pv4fad.deployment.hub.live import LiveQuestions, NoAnswerError, answering
from pv4fad.errors import OrderError, ProtocolError, WireError
from pv4fad.listening import Listen
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.notify.bank import notices
from pv4fad.protocol.notify.messages import BODY_BYTES, Notify, notice
from pv4fad.protocol.receipt import Receipt, receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.service import notices as outbox
from pv4fad.service.access import Tokens
from pv4fad.service.alerts import HandedOver
from pv4fad.service.inbox import inbox_app
from pv4fad.service.notices import LiveNotices

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


# From the desk to the inbox, through a hub.


class TrainedStation:
    """Of a trained bank: its own thread handles messages and errands."""

    def __init__(self, world, bank) -> None:
        member = Scribe(bank.name)
        self.station = world.new_station(member)
        queries = LiveAnswers(bank.name, lambda: True)
        self.answers = BankAnswers(bank.store, bank.handle, self.station.errand, queries)
        self._world, self._name = world, bank.name

    @contextmanager
    def answering(self):
        own = self._world.correspondence(self._name)
        try:
            with answering(self._world.folder(self._name), own, self.answers.answer):
                yield
        finally:
            self.station.close()


def test_a_hand_over_reaches_the_inbox_of_its_bank_and_no_other(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "AGAIN_AFTER_S", 0.1)
    banks = {bank.name: bank for bank in trained.federation.banks}
    world = HubWorld(tmp_path / "hub", list(banks))
    own = world.correspondence(PAYMENT_NETWORK)
    live = LiveQuestions(world.folder(PAYMENT_NETWORK), own)
    before = {name: len(notices(bank.store)) for name, bank in banks.items()}
    run = trained.parameters.run_id
    with (
        world.hub(),
        live_service(tmp_path, carrier=LiveNotices(live), running=[live], run_id=run) as service,
        ExitStack() as connected,
    ):
        answers = service.post("/payments/batch", live_world().payments).json()
        alerts = [one for one in answers if one["alert"]]
        person = service.log_in()
        number, side, bank = next(found(person, range(len(alerts))))
        form = {"csrf": hidden(person.get("/").text), "confirm": "yes"}
        person.post(f"/alerts/{number}/hand-over/{side}", data=form)
        assert "not delivered yet" in person.get(f"/alerts/{number}").text
        stations = {name: TrainedStation(world, one) for name, one in banks.items()}
        for station in stations.values():
            connected.enter_context(station.answering())
        assert comes_true(lambda: "; delivered 20" in person.get(f"/alerts/{number}").text)
    received = stations[bank].answers.notices()
    assert [*received] == notices(banks[bank].store)
    assert len(received) == before[bank] + 1
    assert (received[0].reference, received[0].level) == (
        alerts[number]["id"],
        alerts[number]["level"],
    )
    for name, other in banks.items():
        if name != bank:
            assert len(notices(other.store)) == before[name]
    shown = inbox_page(tmp_path, bank, stations[bank].answers.notices)
    assert alerts[number]["id"] in shown
    assert received[0].account in shown
    assert f"level {received[0].level}" in shown


def test_a_notice_that_cannot_be_sent_holds_up_no_other():
    """Of a service that did not look before it kept what was handed over."""
    accounts = ("A" * 2 * BODY_BYTES, "A")
    given = [
        HandedOver(n, "run-1", "bank01", account, "alice", f"2026-05-0{n + 1}")
        for n, account in enumerate(accounts)
    ]
    alerts = [SimpleNamespace(number=n, decision=SimpleNamespace(id="P", level=1)) for n in (0, 1)]
    waiting, delivered = [*zip(alerts, given, strict=True)], []

    class Book:
        @staticmethod
        def delivered(number, notice):
            return number, notice

    class Carrier:
        async def carry(self, bank, message):
            return encode(receipt_of(decode(message)))

    async def act(action):
        delivered.append(action)

    pipeline = SimpleNamespace(book=Book(), act=act)
    asyncio.run(outbox.Outbox(pipeline, Carrier())._to_bank("bank01", waiting))
    assert delivered == [(1, 1)]


def test_a_busy_bank_keeps_a_notice_later_and_holds_up_no_live_message(trained, tmp_path):
    bank = trained.federation.banks[0]
    world, free = HubWorld(tmp_path, [bank.name]), threading.Event()
    station = TrainedStation(world, bank)
    address = Address(PAYMENT_NETWORK, bank.name, trained.parameters.run_id, index=77)
    message = encode(notice(address, "P77", "A77", 1))
    refused = encode(notice(replace(address, run_id="run-x"), "P", "A", 1))
    busy = station.station.errand(lambda: free.wait(300))  # as a step of a training

    async def work():
        own = world.correspondence(PAYMENT_NETWORK)
        async with LiveQuestions(world.folder(PAYMENT_NETWORK), own) as live:
            while True:
                with suppress(NoAnswerError):
                    assert await live.ask(bank.name, message, 60) == NOT_YET
                    break
                await asyncio.sleep(0.05)
            for _ in range(20):  # each of them at once
                assert await live.ask(bank.name, message, 60) == NOT_YET
                assert await live.ask(bank.name, refused, 60) == NOT_YET
            assert not any(one.reference == "P77" for one in station.answers.notices())
            assert not busy.done()
            free.set()
            receipt = await LiveNotices(live).carry(bank.name, message)
            assert isinstance(decode(receipt), Receipt)
            assert await live.ask(bank.name, message, 60) == receipt
            with pytest.raises(NoAnswerError):  # it is no notice
                await live.ask(bank.name, receipt, 0.5)

    with world.hub(), station.answering():
        asyncio.run(asyncio.wait_for(work(), 300))
    assert [one.reference for one in station.answers.notices()].count("P77") == 1


def found(person, numbers):
    for number in numbers:
        page = person.get(f"/alerts/{number}").text
        for side in ("ordering", "beneficiary"):
            link = f'hand-over/{side}">Hand over to '
            if link in page:
                yield number, side, page.split(link)[1].split(" ")[0]


def inbox_page(tmp_path, bank, received) -> str:
    folder = tmp_path / bank
    folder.mkdir()
    token = Tokens(folder).create("bob", "desk")
    listen = Listen(port=free_port())
    app = inbox_app(folder, bank, received)
    with serving(app, listen), ExitStack() as opened:
        inbox = Service(listen, folder, None, {"desk": token}, opened)
        assert inbox.stranger().get("/").status_code == 303
        person = inbox.log_in()
        assert person.get("/?text=nothing+like+this").text.count("<td") == 0
        return person.get("/").text
