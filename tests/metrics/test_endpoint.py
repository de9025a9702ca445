"""Figures of a station over HTTP: who may read them, and what probes are told."""

import socket
import ssl
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.live_service import free_port
from tests.kit.waiting import comes_true

from pv4fad.deployment.certificates import new_certificate
from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.listening import Listen
from pv4fad.metrics.catalogue import LAST_MESSAGE, MESSAGES, WORK
from pv4fad.metrics.endpoint import _AT_A_TIME, endpoint
from pv4fad.metrics.figures import Figures


@contextmanager
def shown(figures, may=None, **listening):
    listen = Listen(port=free_port(), **listening)
    with endpoint(listen, figures, may):
        yield listen.address.rstrip("/")


def samples(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_was_counted_noted_and_asked_for_is_shown():
    figures = Figures()
    figures.count(MESSAGES, "sent", "bank01")
    figures.count(MESSAGES, "sent", "bank01")
    figures.note(LAST_MESSAGE, "sent", value=7)
    figures.add_source(lambda: [WORK.by({("match",): 2.5})])
    with shown(figures) as address:
        answer = httpx.get(f"{address}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.text)
    assert found["pv4fad_messages_total", "sent", "bank01"] == 2
    assert found["pv4fad_last_message_time_seconds", "sent"] == 7
    assert found["pv4fad_work_seconds_total", "match"] == 2.5
    assert found[("process_resident_memory_bytes",)] > 1e6


def test_errors_are_counted_by_kinds_that_are_known_before():
    figures = Figures()
    before = set(samples(figures.text().decode()))
    figures.failed(DataError("of an account"))
    figures.failed(ValueError("of an account"))
    found = samples(figures.text().decode())
    assert set(found) == before
    assert found["pv4fad_errors_total", "DataError"] == 1
    assert found["pv4fad_errors_total", "unexpected"] == 1
    assert found["pv4fad_errors_total", "BudgetError"] == 0


def test_probes_are_told_whether_the_station_can_work():
    figures, problem = Figures(), ["the hub does not run"]
    figures.problem = lambda: problem[0]
    with shown(figures) as address:
        assert httpx.get(f"{address}/healthz").status_code == 200
        answer = httpx.get(f"{address}/readyz")
        assert (answer.status_code, answer.text) == (503, "the hub does not run\n")
        problem[0] = ""
        assert httpx.get(f"{address}/readyz").status_code == 200
        assert httpx.get(f"{address}/").status_code == 404
        assert httpx.post(f"{address}/metrics").status_code == 501


def test_with_tokens_only_a_known_one_may_read_and_probes_need_none():
    with shown(Figures(), may=lambda token: token == "known") as address:
        for header in ("", "Bearer other", "known", "Basic known"):
            answer = httpx.get(f"{address}/metrics", headers={"authorization": header})
            assert answer.status_code == 401
            assert "pv4fad_" not in answer.text
        good = httpx.get(f"{address}/metrics", headers={"authorization": "Bearer known"})
        assert "pv4fad_errors_total" in good.text
        assert httpx.get(f"{address}/readyz").status_code == 200


def test_elsewhere_than_on_loopback_there_must_be_tls():
    with pytest.raises(ParameterError, match="needs TLS"):
        Listen("0.0.0.0", 9100)  # noqa: S104


def test_with_tls_nothing_else_is_spoken(tmp_path):
    (tmp_path / "crt").write_text(new_certificate(tmp_path / "key", "127.0.0.1"))
    tls = {"certificate": tmp_path / "crt", "key": tmp_path / "key"}
    with shown(Figures(), **tls) as address:
        assert address.startswith("https://")
        context = ssl.create_default_context(cafile=str(tmp_path / "crt"))
        assert httpx.get(f"{address}/healthz", verify=context).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{address.replace('https', 'http')}/healthz")
        assert httpx.get(f"{address}/healthz", verify=context).status_code == 200


def test_silent_clients_are_bounded_and_others_are_served_when_they_leave():
    with shown(Figures()) as address, ExitStack() as silent:
        host, port = address.removeprefix("http://").split(":")
        for _ in range(_AT_A_TIME):
            silent.enter_context(socket.create_connection((host, int(port))))

        def is_served():
            try:
                return httpx.get(f"{address}/healthz").status_code == 200
            except httpx.HTTPError:
                return False

        assert comes_true(lambda: not is_served(), 10)
        silent.close()
        assert comes_true(is_served, 10)


def test_an_address_in_use_is_one_clear_error():
    with shown(Figures()) as address:
        port = int(address.rpartition(":")[2])
        with (
            pytest.raises(StoreError, match=f"cannot be shown at http://127.0.0.1:{port}/: "),
            endpoint(Listen(port=port), Figures(), None),
        ):
            pass
