"""Payments over HTTP: what they are answered, once, and what is refused."""

import json
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.kit.live_service import KEY, live_service, live_world
from tests.kit.waiting import comes_true

from pv4fad.lead.rows import new_rows
from pv4fad.payments.schema import SCHEMA
from pv4fad.service import api, pipeline
from pv4fad.service.decisions import HOWS, Decided
from pv4fad.service.journal import Journal
from pv4fad.service.known_payments import KnownPayments
from pv4fad.service.pipeline import Submission

PATIENCE_S = 300


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def decided(service, payments):
    """The answers to all payments, in batches."""
    answers = []
    for start in range(0, len(payments), 100):
        found = service.post("/payments/batch", payments[start : start + 100])
        assert found.status_code == 200, found.text
        answers += found.json()
    return answers


def test_decisions_are_those_of_the_model_without_banks(decided, payments):
    world = live_world()
    rows = world.tables.test.transactions.sort("Timestamp")
    table = world.engine.judge(new_rows(SCHEMA, rows, world.history)).table
    assert [one["id"] for one in decided] == table["MessageId"].to_list()
    assert [one["alert"] for one in decided] == (table["Alert"] == 1).to_list()
    assert [one["level"] for one in decided] == table["Level"].to_list()
    assert np.allclose([one["score"] for one in decided], table["Score"], rtol=1e-9)
    assert 3 < sum(one["alert"] for one in decided) < 200
    assert {one["decided"] for one in decided} == {"local only", "account not yet matched"}
    assert all(one["reasons"] or not one["alert"] for one in decided)
    assert all(one["decided"] in HOWS for one in decided)


def test_a_repeated_payment_gets_the_same_bytes(service, decided, payments):
    one = service.post("/payments", payments[0])
    again = service.post("/payments", payments[0] | {"Label": 1})
    assert one.content == again.content
    assert one.json() == decided[0]


def test_the_same_payment_spelled_in_another_way_is_the_same(service, decided, payments):
    other = payments[1] | {"Timestamp": payments[1]["Timestamp"].replace("T", " ")}
    other["SettlementAmount"] = str(other["SettlementAmount"])
    assert service.post("/payments", other).json() == decided[1]


def test_another_payment_with_a_known_id_is_refused(service, decided, payments):
    other = payments[2] | {"SettlementAmount": 1.0}
    refused = service.post("/payments", other)
    assert refused.status_code == 409
    assert "another payment with this id" in refused.json()["error"]
    in_batch = service.post("/payments/batch", [payments[2], other]).json()
    assert in_batch[0] == decided[2]
    assert in_batch[1]["status"] == 409


def test_a_payment_twice_in_one_batch_is_decided_once(service, payments):
    new = payments[3] | {"MessageId": "twice"}
    first, second = service.post("/payments/batch", [new, new]).json()
    assert first == second
    assert first["id"] == "twice"
    changed = new | {"MessageId": "twice, other"}
    answers = service.post("/payments/batch", [changed, changed | {"UETR": "other"}]).json()
    assert [one.get("status") for one in answers] == [None, 409]


def test_many_clients_at_once_get_one_decision_each(service, payments, monkeypatch):
    monkeypatch.setattr(pipeline, "MOST_WAITED_S", PATIENCE_S)
    new = [payments[4] | {"MessageId": f"at once {n % 10}"} for n in range(60)]
    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(lambda one: service.post("/payments", one), new))
    assert {one.status_code for one in answers} == {200}
    assert len({one.content for one in answers}) == 10


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"SettlementAmount": None}, "SettlementAmount: no value"),
        ({"SettlementAmount": "a lot"}, "SettlementAmount: "),
        ({"SettlementAmount": 1.7976931348623157e308}, "SettlementAmount: an amount of 10^18"),
        ({"SettlementAmount": 10**18}, "SettlementAmount: an amount of 10^18"),
        ({"Timestamp": "yesterday"}, "Timestamp: "),
        ({"Sender": "??"}, "Sender: "),
        ({"Colour": "blue"}, "'Colour' is no field"),
        ({"OrderingName": ["a"]}, "OrderingName: must be a text"),
        ({"OrderingName": True}, "OrderingName: must be a text"),
        ({"OrderingName": "a\nb"}, "OrderingName: has a control character"),
        ({"OrderingName": "\ud800"}, "OrderingName: has a control character"),
        ({"OrderingName": "x" * 3000}, "OrderingName: longer than"),
        ({"MessageId": ""}, "MessageId: no value"),
    ],
)
def test_a_wrong_payment_gets_one_error_that_names_the_field(service, payments, change, error):
    refused = service.post("/payments", payments[5] | {"MessageId": "wrong"} | change)
    assert refused.status_code == 422
    assert refused.json()["error"].startswith(error)


def test_a_bad_payment_does_not_take_the_others_of_its_batch_along(service, payments):
    good = [payments[6] | {"MessageId": f"good {n}"} for n in range(2)]
    bad = payments[6] | {"MessageId": "bad", "SettlementAmount": "none"}
    one, wrong, other = service.post("/payments/batch", [good[0], bad, good[1]]).json()
    assert (one["id"], other["id"]) == ("good 0", "good 1")
    assert wrong["status"] == 422
    assert wrong["error"].startswith("SettlementAmount")


@pytest.mark.parametrize("body", ["{", "[1]", "null", "3", '"text"', "[", '{"a": NaN}', b"\xff"])
def test_what_is_no_payment_is_refused(service, body):
    assert service.post("/payments", body).status_code == 422
    assert service.post("/payments/batch", body).status_code == 422


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32-le"])
def test_a_payment_in_broken_text_stops_no_other(service, payments, encoding):
    """Half of a surrogate pair that is not escaped, which Python reads from bytes."""
    broken = json.dumps(payments[6] | {"OrderingName": "\ud800"}, ensure_ascii=False)
    for path in ("/payments", "/payments/batch"):
        refused = service.post(path, broken.encode(encoding, "surrogatepass"))
        assert refused.status_code == 422
        assert "UTF-8" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/payments", "/payments/batch"])
def test_a_payment_with_a_field_twice_is_refused(service, payments, path):
    text = json.dumps(payments[6] | {"MessageId": "twice"})
    refused = service.post(path, text[:-1] + ', "SettlementAmount": 1}')
    assert refused.status_code == 422
    assert refused.json()["error"].endswith("an object has a name twice")


def test_one_payment_per_line(service, payments):
    new = [payments[7] | {"MessageId": f"line {n}"} for n in range(3)]
    body = "\n".join(map(json.dumps, new)) + "\n"
    kind = {"content-type": "application/x-ndjson"}
    found = service.post("/payments/batch", body, **kind)
    assert [one["id"] for one in found.json()] == ["line 0", "line 1", "line 2"]
    refused = service.post("/payments/batch", body + "{\n", **kind)
    assert (refused.status_code, refused.json()["error"][:7]) == (422, "line 4:")


def test_every_answer_is_in_the_journal_and_survives_a_restart(tmp_path, payments):
    with live_service(tmp_path) as first:
        answers = first.post("/payments/batch", payments[:150]).json()
    with Journal.open(tmp_path, KEY) as journal:
        assert [json.loads(one.answer) for one in journal.decisions()] == answers
    with live_service(tmp_path) as second:
        assert second.post("/payments/batch", payments[:150]).json() == answers
        # Features continue from what was decided before the restart.
        later = second.post("/payments/batch", payments[150:300]).json()
    with live_service(
        tmp_path / "other" if (tmp_path / "other").mkdir() is None else tmp_path
    ) as third:
        together = third.post("/payments/batch", payments[:300]).json()
    assert [one["score"] for one in together[150:]] == [one["score"] for one in later]


class HalfStuck:
    """An engine that decides all but the first payment, and that one when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()

    async def decide(self, payments):
        import asyncio  # noqa: PLC0415

        whole = live_world().engine.judge(payments)
        for rows in (np.arange(1, len(payments)), np.zeros(1, np.int64)):
            how = tuple(whole.how[row] for row in rows)
            yield Decided(rows, whole.table[rows], how)
            await asyncio.to_thread(self.go.wait, PATIENCE_S)


def test_who_accepts_lines_gets_each_decision_when_it_is_made(tmp_path, payments):
    engine, lines = HalfStuck(), []
    wrong = payments[4] | {"SettlementAmount": "much"}
    with live_service(tmp_path, engine=engine) as service:
        accept = {"accept": "Application/x-ndjson;q=1, */*"}
        with service.stream("/payments/batch", [*payments[:4], wrong], **accept) as found:
            assert found.headers["content-type"] == "application/x-ndjson"
            for line in found.iter_lines():
                lines.append(json.loads(line))
                if len(lines) == 4:  # the first payment waits, and no other for it
                    engine.go.set()
        in_order = service.post("/payments/batch", payments[:4]).content.decode()
    numbers = [number for number, _ in lines]
    assert sorted(numbers[:4]) == [2, 3, 4, 5]
    assert numbers[4:] == [1]
    said = dict(lines)
    assert said.pop(5)["status"] == 422
    # To the byte what the journal has.
    texts = [json.dumps(said[number], separators=(",", ":")) for number in range(1, 5)]
    assert in_order == f"[{','.join(texts)}]"


def test_lines_end_with_what_was_not_decided_in_time(tmp_path, payments, monkeypatch):
    answers = Submission.answers

    async def hasty(submission, within_s):
        """The time begins when some are there, so that they are in time on any machine."""
        await submission._some.wait()
        async for some in answers(submission, within_s):
            yield some

    monkeypatch.setattr(Submission, "answers", hasty)
    monkeypatch.setattr(api, "ANSWER_WITHIN_S", 0.1)
    engine = HalfStuck()
    with live_service(tmp_path, engine=engine) as service:
        accept = {"accept": "application/x-ndjson"}
        with service.stream("/payments/batch", payments[:3], **accept) as found:
            lines = [json.loads(line) for line in found.iter_lines()]
        assert sorted(number for number, _ in lines[:-1]) == [2, 3]
        assert lines[-1][0] == 1
        assert lines[-1][1]["status"] == 503
        assert all("alert" in answer for _, answer in lines[:-1])
        engine.go.set()


class Stuck:
    """An engine that decides when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.inner = live_world().engine

    async def decide(self, payments):
        import asyncio  # noqa: PLC0415

        await asyncio.to_thread(self.go.wait, PATIENCE_S)
        yield self.inner.judge(payments)


def until_under_way(service, n_payments):
    headers = {"authorization": f"Bearer {service.tokens['metrics']}"}
    shown = f"pv4fad_under_way {n_payments:.1f}"
    assert comes_true(lambda: shown in service.client.get("/metrics", headers=headers).text)


def test_overload_is_refused_at_once_and_not_queued(tmp_path, payments):
    engine = Stuck()
    with live_service(tmp_path, most_payments=10, engine=engine) as service:
        with ThreadPoolExecutor(1) as client:
            waiting = client.submit(service.post, "/payments/batch", payments[:10])
            until_under_way(service, 10)
            refused = service.post("/payments", payments[11])
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1"
            engine.go.set()
            assert waiting.result().status_code == 200
        assert service.post("/payments", payments[11]).status_code == 200


def test_while_a_payment_waits_for_too_long_no_more_are_taken(tmp_path, payments, monkeypatch):
    begun, go, take = threading.Event(), threading.Event(), KnownPayments.take

    def stuck(*arguments):
        begun.set()
        go.wait(PATIENCE_S)
        return take(*arguments)

    monkeypatch.setattr(KnownPayments, "take", stuck)
    monkeypatch.setattr(pipeline, "MOST_WAITED_S", 0.0)
    with live_service(tmp_path) as service, ThreadPoolExecutor(2) as clients:
        found = [clients.submit(service.post, "/payments", payments[0])]
        assert begun.wait(PATIENCE_S)
        found.append(clients.submit(service.post, "/payments", payments[1]))
        until_under_way(service, 2)
        assert service.post("/payments", payments[2]).status_code == 429
        go.set()
        assert [one.result().status_code for one in found] == [200, 200]
        assert service.post("/payments", payments[2]).status_code == 200


class Broken:
    async def decide(self, payments):
        raise RuntimeError(f"SECRET-OF-{payments.ids[0]}")
        yield


def test_an_engine_that_fails_is_a_503_and_its_words_are_not_in_the_log(tmp_path, payments, caplog):
    with live_service(tmp_path, engine=Broken()) as service:
        failed = service.post("/payments", payments[0])
        assert failed.status_code == 503
        assert failed.headers["retry-after"]
        assert service.client.get("/readyz").status_code == 200
    assert "RuntimeError" in caplog.text
    assert "SECRET" not in caplog.text
    with Journal.open(tmp_path, KEY) as journal:
        assert journal.n_decisions == 0


def test_while_the_journal_cannot_grow_no_payment_is_decided(tmp_path, payments):
    usual, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with live_service(tmp_path) as service:
        first = service.post("/payments", payments[0])
        assert first.status_code == 200
        # Files that may not grow: what a full disk looks like to SQLite.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            for payment in payments[1:4]:
                failed = service.post("/payments", payment)
                assert failed.status_code == 503
                assert failed.headers["retry-after"]
            assert service.post("/payments", payments[0]).content == first.content
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (usual, hard))
        later = [service.post("/payments", payment) for payment in payments[1:4]]
        assert [one.status_code for one in later] == [200] * 3
    with Journal.open(tmp_path, KEY) as journal:
        answers = [entry.answer.encode() for entry in journal.decisions()]
    assert answers == [one.content for one in (first, *later)]


def test_health_and_readiness(service):
    assert service.client.get("/healthz").text == "alive\n"
    assert service.client.get("/readyz").text == "ready\n"
