"""What an open page is told of: each alert once, in order, while its session lasts."""

from itertools import islice, takewhile

import pytest
from tests.kit.live_service import hidden, live_service

from pv4fad.service import desk
from pv4fad.service.desk import Listeners


@pytest.fixture
def service(tmp_path):
    with live_service(tmp_path) as running:
        yield running


def send(service, payments, of=""):
    """As new payments; how many became alerts."""
    new = [one | {"MessageId": f"{one['MessageId']}{of}"} for one in payments]
    return sum(one["alert"] for one in service.post("/payments/batch", new).json())


def told(answer):
    """Numbers of alerts and kinds of events, as they come."""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            yield int(line.removeprefix("id: "))
        elif line.startswith("event: ") and line != "event: alert":
            yield line.removeprefix("event: ")


def test_a_session_that_has_ended_is_told_of_no_more_alerts(service, payments):
    person = service.log_in()
    with person.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(":")
        person.post("/logout", data={"csrf": hidden(person.get("/").text)})
        assert send(service, payments) > 0
        assert not any(islice(lines, 10))


def test_a_page_that_connects_again_is_told_what_it_has_missed_and_nothing_twice(
    tmp_path, payments, monkeypatch
):
    add, tell, alerts = Listeners.add, Listeners.tell, []

    def told_at_once(listeners):
        """As if the alerts had come while the page was connecting."""
        queue = add(listeners)
        for alert in alerts:
            queue.put_nowait(alert)
        return queue

    def recorded(listeners, alert):
        alerts.append(alert)
        tell(listeners, alert)

    monkeypatch.setattr(Listeners, "add", told_at_once)
    monkeypatch.setattr(Listeners, "tell", recorded)
    with live_service(tmp_path) as service:
        n_missed, person = send(service, payments), service.log_in()
        assert len(alerts) == n_missed > 3
        last = {"last-event-id": f"{n_missed - 4}"}
        with person.stream("GET", "/events", headers=last) as answer:
            numbers = told(answer)
            assert [*islice(numbers, 3)] == [*range(n_missed - 3, n_missed)]
            n_new = send(service, payments, "-later")
            assert n_new > 0
            assert [*islice(numbers, n_new)] == [*range(n_missed, n_missed + n_new)]


def test_a_new_page_is_told_what_came_since_it_was_made_and_fits(service, payments, monkeypatch):
    monkeypatch.setattr(desk, "_BEAT_S", 0.01)
    n_missed, person = send(service, payments), service.log_in()
    n_told = 0
    for level in (1, 2, 3):
        page = person.get(f"/?level={level}").text.split('data-number="')[1:]
        wanted = sorted(int(part.split('"')[0]) for part in page)
        with person.stream("GET", f"/events?level={level}&first=0") as answer:
            found = takewhile(lambda line: line != ": nothing new", answer.iter_lines())
            assert [int(line[4:]) for line in found if line.startswith("id: ")] == wanted
        n_told += len(wanted)
    assert n_told == n_missed


@pytest.mark.parametrize("last", ["", "x", "-1", "9" * 30, "9" * 5000])
def test_a_page_that_names_no_alert_has_missed_none(service, payments, last, monkeypatch):
    monkeypatch.setattr(desk, "_BEAT_S", 0.01)
    assert send(service, payments) > 0
    headers = {"last-event-id": last}
    with service.log_in().stream("GET", "/events", headers=headers) as answer:
        lines = [line for line in islice(answer.iter_lines(), 4) if line]
    assert lines[1] == ": nothing new"


def test_a_page_that_has_missed_too_much_is_told_to_reload(service, payments, monkeypatch):
    monkeypatch.setattr(desk, "_MOST_MISSED", 2)
    person = service.log_in()
    with person.stream("GET", "/events") as answer:
        n_alerts = send(service, payments)
        *numbers, kind = told(answer)
    assert n_alerts > 3
    assert (numbers, kind) == ([0, 1], "reload")
    with person.stream("GET", "/events", headers={"last-event-id": "0"}) as answer:
        assert [*told(answer)] == ["reload"]
    last = {"last-event-id": f"{n_alerts - 3}"}
    with person.stream("GET", "/events", headers=last) as answer:
        assert [*islice(told(answer), 2)] == [n_alerts - 2, n_alerts - 1]
