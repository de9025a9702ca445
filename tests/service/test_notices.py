"""Handing over: the bank concerned gets payment, account and level, once; nobody else anything."""

import asyncio
import json
import threading
import time
from concurrent.futures import Future
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

from pv4fad.deployment.bank_answers import NOT_YET, REFUSED, BankAnswers
from pv4fad.deployment.hub.live import LiveQuestions, NoAnswerError, answering
from pv4fad.errors import OrderError, ProtocolError, StoreError, WireError
from pv4fad.listening import Listen
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.notify.bank import notices
from pv4fad.protocol.notify.messages import BODY_BYTES, Notify, notice
from pv4fad.protocol.receipt import Receipt, receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, decode, encode
from pv4fad.service import alerts
from pv4fad.service import notices as outbox
from pv4fad.service.access import Tokens
from pv4fad.service.alerts import HandedOver
from pv4fad.service.inbox import inbox_app
from pv4fad.service.journal import Journal
from pv4fad.service.notices import LiveNotices
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
        def waiting():
            return [one for one in waiting if one[1].notice not in dict(delivered).values()]

        @staticmethod
        def delivered(number, notice):
            return number, notice

    class Carrier:
        async def carry(self, bank, message):
            return encode(receipt_of(decode(message)))

    async def act(action):
        delivered.append(action)

    pipeline = SimpleNamespace(book=Book(), act=act)
    asyncio.run(outbox.Outbox(pipeline, Carrier())._to_bank("bank01"))
    assert delivered == [(1, 1)]


class Carried:
    """Banks that take every notice, unless a test says otherwise."""

    def __init__(self, *first) -> None:
        """`first`: what happens to the first ones, an answer or an error."""
        self.first, self.taken = list(first), []
        self.away = set()

    async def carry(self, bank, message):
        while bank in self.away:
            await asyncio.sleep(0.01)
        self.taken.append((bank, message))
        happens = self.first.pop(0) if self.first else encode(receipt_of(decode(message)))
        if isinstance(happens, Exception):
            raise happens
        return happens


def handed_over(service, person, n, bank=None):
    """The pages of the first alerts that can be handed over, to one bank each, and are."""
    csrf = hidden(person.get("/").text)
    places = found(person, range(person.get("/").text.count('data-number="')))
    chosen = [one for one in places if bank in (None, one[2])][:n]
    assert len(chosen) == n
    for number, side, _ in chosen:
        form = {"csrf": csrf, "confirm": "yes"}
        done = person.post(f"/alerts/{number}/hand-over/{side}", data=form)
        assert done.status_code == 303
    return [f"/alerts/{number}" for number, _, _ in chosen], chosen[0][2]


def test_a_notice_that_its_bank_refuses_is_shown_and_holds_up_no_other(tmp_path):
    carrier = Carried(REFUSED)
    with live_service(tmp_path, carrier=carrier) as service:
        service.post("/payments/batch", live_world().payments)
        person = service.log_in()
        (first, second), _ = handed_over(service, person, 2, "bank01")
        assert comes_true(lambda: "; delivered 20" in person.get(second).text)
        assert "; refused by the bank 20" in person.get(first).text
        assert "not delivered yet" not in person.get(first).text
    assert len(carrier.taken) == 2
    with live_service(tmp_path, carrier=carrier) as again:
        person = again.log_in()
        assert "; refused by the bank 20" in person.get(first).text
        (third,), _ = handed_over(again, person, 1, "bank01")
        assert comes_true(lambda: "; delivered 20" in person.get(third).text)
    assert len(carrier.taken) == 3


def test_no_bank_waits_for_another(tmp_path):
    carrier = Carried()
    carrier.away = {"bank01"}
    with live_service(tmp_path, carrier=carrier) as service:
        service.post("/payments/batch", live_world().payments)
        person = service.log_in()
        (first,), _ = handed_over(service, person, 1, "bank01")
        time.sleep(0.2)  # it is on its way
        (second,), _ = handed_over(service, person, 1, "bank02")
        assert comes_true(lambda: "; delivered 20" in person.get(second).text, 20)
        assert "not delivered yet" in person.get(first).text
        carrier.away = set()
        assert comes_true(lambda: "; delivered 20" in person.get(first).text, 20)


@pytest.mark.parametrize(
    "error", [NoAnswerError("away"), OSError("gone"), ValueError("SECRET"), b"no receipt"]
)
def test_what_happens_to_one_notice_ends_no_delivery(tmp_path, monkeypatch, caplog, error):
    monkeypatch.setattr(outbox, "AGAIN_AFTER_S", 0.1)
    with live_service(tmp_path, carrier=Carried(error)) as service:
        service.post("/payments/batch", live_world().payments)
        person = service.log_in()
        (page,), bank = handed_over(service, person, 1)
        assert comes_true(lambda: "; delivered 20" in person.get(page).text)
    assert f"a notice did not reach {bank}" in caplog.text
    assert not any("SECRET" in one.message for one in caplog.records)


def test_a_journal_that_cannot_be_written_once_ends_no_delivery(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "AGAIN_AFTER_S", 0.1)
    act, failed = Journal.act, []

    def fails_once(journal, action):
        if action["what"] == "delivered" and not failed:
            failed.append(action)
            raise StoreError("the disk is full")
        return act(journal, action)

    monkeypatch.setattr(Journal, "act", fails_once)
    carrier = Carried()
    with live_service(tmp_path, carrier=carrier) as service:
        service.post("/payments/batch", live_world().payments)
        person = service.log_in()
        (page,), _ = handed_over(service, person, 1)
        assert comes_true(lambda: "; delivered 20" in person.get(page).text)
    assert failed
    first, second = carrier.taken
    assert first == second


def test_a_hand_over_waits_however_many_alerts_come_after_it(tmp_path, monkeypatch):
    payments = live_world().payments
    with live_service(tmp_path) as service:
        service.post("/payments/batch", payments)
        person = service.log_in()
        handed_over(service, person, 2)
        monkeypatch.setattr(alerts, "MOST_ALERTS", 1)  # as if so many more had come
        ids = [one | {"MessageId": f"{one['MessageId']}-again"} for one in payments]
        service.post("/payments/batch", ids)
        assert person.get("/alerts/0").status_code == 404
        assert n_waiting(service) == 2
    carrier = Carried(NoAnswerError("away"))
    monkeypatch.setattr(outbox, "AGAIN_AFTER_S", 0.1)
    with live_service(tmp_path, carrier=carrier) as service:
        person = service.log_in()
        assert person.get("/alerts/0").status_code == 404
        assert comes_true(lambda: n_waiting(service) == 0)
    assert (len(carrier.taken), len(set(carrier.taken))) == (3, 2)
    with live_service(tmp_path, carrier=carrier) as service:
        assert n_waiting(service) == 0


def n_waiting(service) -> int:
    """Notices, as the figures of the service have it."""
    token = {"authorization": f"Bearer {service.tokens['metrics']}"}
    figures = service.client.get("/metrics", headers=token).text.splitlines()
    found = [one.split()[-1] for one in figures if one.startswith("pv4fad_notices_waiting{")]
    return int(sum(map(float, found)))


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
            assert await LiveNotices(live).carry(bank.name, refused) == REFUSED
            receipt = await LiveNotices(live).carry(bank.name, message)
            assert isinstance(decode(receipt), Receipt)
            assert await live.ask(bank.name, message, 60) == receipt
            with pytest.raises(NoAnswerError):  # it is no notice
                await live.ask(bank.name, receipt, 0.5)

    with world.hub(), station.answering():
        asyncio.run(asyncio.wait_for(work(), 300))
    assert [one.reference for one in station.answers.notices()].count("P77") == 1


def test_only_what_a_bank_would_never_keep_is_refused(trained):
    """On a full disk, or after a mistake in the program, it is asked again."""
    name, asked = trained.federation.banks[0].name, []
    happens = [StoreError("the disk is full"), ValueError("SECRET"), OrderError("no model")]

    def handle(message):
        asked.append(message)
        raise happens[len(asked) - 1]

    def at_once(work):
        done = Future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done

    queries = LiveAnswers(name, lambda: True)
    answers = BankAnswers(MemoryStore(name), handle, at_once, queries)
    message = encode(notice(replace(ADDRESS, receiver=name), "P", "A", 1))
    assert [answers.answer(message) for _ in range(5)] == [NOT_YET] * 3 + [REFUSED] * 2
    assert len(asked) == 3


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
