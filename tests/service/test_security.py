"""What must not work: strangers, forged forms, hostile bodies, slow clients, secrets that leak."""

import logging
import socket
import ssl
from functools import partial
from itertools import islice

import httpx
import pytest
from tests.kit.client_certificates import client_certificate
from tests.kit.iso_messages import foreign_message, row
from tests.kit.live_service import free_port, hidden, live_service, serving, session_cookie

from pv4fad.deployment.certificates import new_certificate
from pv4fad.errors import ParameterError
from pv4fad.listening import Listen
from pv4fad.service import desk, server, web
from pv4fad.service.access import IDLE_S, LONGEST_S, Sessions, Tokens
from pv4fad.service.inbox import inbox_app

PATIENCE_S = 60
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def alert(service, payments):
    """The number of an alert, of a payment with hostile names."""
    hostile = [
        one | {"OrderingName": HOSTILE, "BeneficiaryName": HOSTILE, "TransactionReference": HOSTILE}
        for one in payments
    ]
    for start in range(0, len(hostile), 200):
        answers = service.post("/payments/batch", hostile[start : start + 200]).json()
        if any(one["alert"] for one in answers):
            return 0
    pytest.fail("no payment became an alert")
    return None


# Who may do what.


@pytest.mark.parametrize("path", ["/payments", "/payments/batch"])
@pytest.mark.parametrize("use", [None, "desk", "metrics"])
def test_payments_need_a_token_for_payments(service, payments, path, use):
    headers = {"content-type": "application/json"}
    if use is not None:
        headers["authorization"] = f"Bearer {service.tokens[use]}"
    refused = service.client.post(path, json=payments[0], headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["wrong", "0" * 64, "ä" * 64])
def test_a_wrong_token_is_refused(service, payments, token):
    value = b"Bearer " + token.encode()
    headers = {b"authorization": value, b"content-type": b"application/json"}
    assert service.client.post("/payments", json=payments[0], headers=headers).status_code == 401


def test_metrics_need_a_token_of_their_own(service):
    assert service.client.get("/metrics").status_code == 401
    own = {"authorization": f"Bearer {service.tokens['metrics']}"}
    assert "pv4fad_payments_total" in service.client.get("/metrics", headers=own).text


@pytest.mark.parametrize("name", ["token", "access_token", "Token", "api_key"])
def test_a_token_in_the_url_is_refused_even_if_it_is_right(service, payments, name):
    url = f"/payments?{name}={service.tokens['payments']}"
    refused = service.client.post(url, json=payments[0])
    assert refused.status_code == 400
    assert "URL" in refused.json()["error"]
    assert service.tokens["payments"] not in refused.text


@pytest.mark.parametrize(
    "path", ["/", "/alerts/0", "/alerts/0/hand-over/ordering", "/watch", "/events"]
)
def test_pages_send_strangers_to_the_login(service, path):
    sent = service.client.get(path)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("path", ["/alerts/0/verdict", "/alerts/0/hand-over/ordering", "/logout"])
def test_strangers_can_do_nothing(service, path):
    form = {"verdict": "confirmed", "confirm": "yes"}
    assert service.client.post(path, data=form).status_code == 403


def test_a_login_needs_the_right_token_and_the_form_of_this_browser(service):
    person = service.stranger()
    csrf = hidden(person.get("/login").text)
    wrong = person.post("/login", data={"csrf": csrf, "token": service.tokens["payments"]})
    assert wrong.status_code == 403
    assert "not known" in wrong.text
    stranger = service.stranger()
    forged = stranger.post("/login", data={"csrf": csrf, "token": service.tokens["desk"]})
    assert forged.status_code == 403
    assert stranger.get("/").status_code == 303


def test_the_cookie_of_a_session_is_out_of_reach_of_scripts_and_other_sites(service):
    person = service.stranger()
    form = {"csrf": hidden(person.get("/login").text), "token": service.tokens["desk"]}
    cookie = person.post("/login", data=form).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie  # no TLS on loopback


@pytest.mark.parametrize("csrf", [None, "", "wrong", "0" * 64])
def test_a_form_without_the_token_of_the_session_does_nothing(service, alert, csrf):
    person = service.log_in()
    form = {"verdict": "confirmed", "note": "forged", "confirm": "yes"}
    form |= {} if csrf is None else {"csrf": csrf}
    for path in ("verdict", "hand-over/ordering"):
        assert person.post(f"/alerts/{alert}/{path}", data=form).status_code == 403
    assert "forged" not in person.get(f"/alerts/{alert}").text


def test_the_csrf_token_of_one_session_is_worth_nothing_in_another(service, alert):
    one, other = service.log_in(), service.log_in()
    csrf = hidden(one.get("/").text)
    form = {"csrf": csrf, "verdict": "confirmed", "note": "crossed"}
    assert other.post(f"/alerts/{alert}/verdict", data=form).status_code == 403


def test_a_form_that_a_browser_sends_from_another_site_is_refused(service, alert):
    person = service.log_in()
    form = {"csrf": hidden(person.get("/").text), "verdict": "confirmed"}
    crossed = person.post(
        f"/alerts/{alert}/verdict", data=form, headers={"sec-fetch-site": "cross-site"}
    )
    assert crossed.status_code == 400


def test_who_has_logged_out_is_a_stranger(service):
    person = service.log_in()
    name, value = session_cookie(person)
    person.post("/logout", data={"csrf": hidden(person.get("/").text)})
    assert not person.cookies
    again = service.stranger(cookies={name: value})
    assert again.get("/").status_code == 303


def test_a_desk_and_an_inbox_on_one_host_do_not_log_each_other_out(service, tmp_path):
    """Browsers send cookies to all ports of a host."""
    token, listen = Tokens(tmp_path).create("bob", "desk"), Listen(port=free_port())
    with serving(inbox_app(tmp_path, "bank01", list), listen), httpx.Client() as browser:
        sites = {service.listen.address: service.tokens["desk"], listen.address: token}
        for address in sites:  # both logins are open at the same time
            browser.get(f"{address}login")
        for address, one in sites.items():
            form = {"csrf": hidden(browser.get(f"{address}login").text), "token": one}
            assert browser.post(f"{address}login", data=form).status_code == 303
        pages = {address: browser.get(address) for address in sites}
        assert [page.status_code for page in pages.values()] == [200, 200]
        form = {"csrf": hidden(pages[listen.address].text)}
        browser.post(f"{listen.address}logout", data=form)
        assert [browser.get(address).status_code for address in sites] == [200, 303]


def test_a_session_ends_when_its_token_is_taken_back_or_renewed(tmp_path):
    """Shown with the pages of a bank; those of the desk log in by the same code."""
    tokens, listen = Tokens(tmp_path), Listen(port=free_port())
    with (
        serving(inbox_app(tmp_path, "bank01", list), listen),
        httpx.Client(base_url=listen.address) as alice,
        httpx.Client(base_url=listen.address) as bob,
    ):
        for name, person in (("alice", alice), ("bob", bob)):
            form = {"csrf": hidden(person.get("/login").text), "token": tokens.create(name, "desk")}
            assert person.post("/login", data=form).status_code == 303
        csrf = hidden(alice.get("/").text)
        tokens.create("alice", "desk")
        assert alice.post("/logout", data={"csrf": csrf}).status_code == 403
        assert alice.get("/").status_code == 303
        assert bob.get("/").status_code == 200
        tokens.remove("bob")
        assert bob.get("/").status_code == 303


def test_a_session_ends_when_it_is_idle_and_after_a_working_day():
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    idle, busy = sessions.begin("alice"), sessions.begin("bob")
    while now[0] < LONGEST_S - IDLE_S:
        now[0] += IDLE_S * 0.9
        assert sessions.get(busy).who == "bob"
    assert sessions.get(idle) is None
    now[0] = LONGEST_S + 1
    assert sessions.get(busy) is None
    assert sessions.get(None) is None


def test_a_page_that_asks_by_itself_does_not_keep_a_session():
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    cookie = sessions.begin("alice")
    for now[0] in (IDLE_S / 2, IDLE_S):
        assert sessions.get(cookie, is_used=False).who == "alice"
    now[0] += 1
    assert sessions.get(cookie, is_used=False) is None


def test_an_open_list_of_alerts_ends_with_a_session_that_nobody_uses(tmp_path, monkeypatch):
    """It hears of the service all the time, and connects again."""
    now = [0.0]
    monkeypatch.setattr(web, "Sessions", partial(Sessions, lambda: now[0]))
    monkeypatch.setattr(desk, "_BEAT_S", 0.01)
    with live_service(tmp_path) as service:
        person = service.log_in()
        for now[0] in (IDLE_S / 2, IDLE_S):
            with person.stream("GET", "/events") as answer:
                assert len([*islice(answer.iter_lines(), 10)]) == 10
        with person.stream("GET", "/events") as answer:
            lines = answer.iter_lines()
            assert len([*islice(lines, 10)]) == 10
            now[0] = IDLE_S + 1
            assert len([*islice(lines, 5000)]) < 5000
        assert person.get("/events").headers["location"] == "/login"
        assert person.get("/").status_code == 303


def test_tokens_are_kept_as_hashes_and_can_be_taken_back(tmp_path):
    tokens = Tokens(tmp_path)
    alice, bob = tokens.create("alice", "desk"), tokens.create("bob", "desk")
    file = tmp_path / "live" / "access.json"
    assert alice not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert (tokens.who(alice, "desk"), tokens.who(alice, "payments")) == ("alice", None)
    renewed = tokens.create("alice", "desk")
    assert (tokens.who(alice, "desk"), tokens.who(renewed, "desk")) == (None, "alice")
    tokens.remove("alice")
    assert (tokens.who(renewed, "desk"), tokens.who(bob, "desk")) == (None, "bob")
    with pytest.raises(ParameterError, match="has no token"):
        tokens.remove("alice")
    with pytest.raises(ParameterError, match="name"):
        tokens.create("a\nb", "desk")


# Pages.


def test_hostile_names_stay_text(service, alert):
    person = service.log_in()
    for path in (
        "/",
        f"/alerts/{alert}",
        f"/alerts/{alert}/hand-over/ordering",
        "/?text=" + HOSTILE,
    ):
        page = person.get(path).text
        assert "<script>alert" not in page
        assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in person.get(f"/alerts/{alert}").text


@pytest.mark.parametrize(
    "path", ["/", "/login", "/watch", "/static/desk.js", "/healthz", "/nothing"]
)
def test_every_response_forbids_foreign_and_inline_scripts(service, path):
    found = service.log_in().get(path, headers={"accept": "text/html"})
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert "server" not in found.headers
    page = found.text
    assert " style=" not in page
    assert "<style" not in page
    assert " onclick" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/static/../journal.py",
        "/static/..%2f..%2fjournal.py",
        "/static/%2e%2e/access.json",
        "/static/desk.css/../../access.json",
        "/static//etc/passwd",
        "/alerts/../../etc/passwd",
        "/alerts/0/hand-over/..%2f..%2fetc",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_path_leads_to_a_file(service, path):
    with socket.create_connection((service.listen.host, service.listen.port), PATIENCE_S) as raw:
        cookie = "=".join(session_cookie(service.log_in()))
        raw.sendall(
            f"GET {path} HTTP/1.1\r\nhost: x\r\ncookie: {cookie}\r\n"
            "connection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split(b" ")[1] in (b"404", b"400")
    assert b"root:" not in answer


def test_what_a_client_says_cannot_become_a_header(service):
    person = service.log_in()
    for path in ("/?text=a%0d%0aset-cookie:%20x=1", "/alerts/0%0d%0aset-cookie:%20x=1"):
        assert "x=1" not in str(person.get(path).headers)
    form = {
        "csrf": hidden(person.get("/").text),
        "verdict": "confirmed",
        "note": "a\r\nset-cookie: x=1",
    }
    assert "x=1" not in str(person.post("/alerts/0/verdict", data=form).headers)


# Bodies.


def test_a_body_that_is_too_long_is_refused_whether_it_says_so_or_not(service):
    kind = {"content-type": "application/json"}
    own = kind | {"authorization": f"Bearer {service.tokens['payments']}"}
    stated = service.client.post("/payments", content=b" " * 100_000, headers=own)
    assert stated.status_code == 413

    def endless():
        for _ in range(200):
            yield b" " * 1000

    unstated = service.client.post("/payments", content=endless(), headers=own)
    assert unstated.status_code == 413
    form = {"token": "x" * 100_000}
    assert service.client.post("/login", data=form).status_code == 413


def test_too_many_payments_in_one_request_are_refused(service):
    refused = service.post(
        "/payments/batch", "\n".join(["{}"] * 5001), **{"content-type": "application/x-ndjson"}
    )
    assert refused.status_code == 422
    assert "at most 5,000" in refused.json()["error"]


def test_json_that_is_deep_is_refused(service):
    assert service.post("/payments", "[" * 50_000).status_code == 422


def test_another_content_type_is_refused(service):
    assert service.post("/payments", "{}", **{"content-type": "text/plain"}).status_code == 415
    assert service.log_in().post("/alerts/0/verdict", json={}).status_code == 415


def test_a_message_is_a_payment(service):
    xml = foreign_message("pacs.008.001.08", [row(1, 1, msg_id="live 1")])
    kind = {"content-type": "application/xml"}
    found = service.post("/payments", xml, **kind)
    assert found.status_code == 200, found.text
    assert service.post("/payments/batch", xml, **kind).json() == [found.json()]


@pytest.mark.parametrize(
    ("msg_id", "error"),
    [("x" * 300, "longer than 256"), ("a&#10;b", "control character"), ("a\x7fb", "control")],
)
def test_a_message_has_the_limits_of_a_payment(service, msg_id, error):
    xml = foreign_message("pacs.008.001.08", [row(1, 1, msg_id="live 2")])
    kind = {"content-type": "application/xml"}
    refused = service.post("/payments/batch", xml.replace("live 2", msg_id), **kind)
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("payment 1: MessageId: ")
    assert error in refused.json()["error"]


DTD = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
BILLION = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><a>&b;</a>'


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (DTD, "document type declaration"),
        (BILLION, "document type declaration"),
        ("<a>", "not well-formed"),
        ("", "empty"),
        ("<a/>", "no pacs.008 message"),
        ("<a>" * 10_000, "nested more than"),
        ("\0\1", "not well-formed"),
    ],
)
def test_hostile_xml_is_refused(service, body, error):
    refused = service.post("/payments/batch", body, **{"content-type": "application/xml"})
    assert refused.status_code == 422
    assert error in refused.json()["error"]
    assert "root:" not in refused.text


# Connections.


def is_cut_off(raw):
    """Whether the connection ends without an answer."""
    try:
        return raw.recv(100) == b""
    except ConnectionError:  # what was sent came after the end
        return True


def test_a_client_that_does_not_finish_its_headers_is_cut_off(service, monkeypatch):
    address = (service.listen.host, service.listen.port)
    with monkeypatch.context() as hasty:
        hasty.setattr(server, "REQUEST_WITHIN_S", 0.3)  # of everybody who connects now
        with socket.create_connection(address, PATIENCE_S) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\nx: ")
            assert is_cut_off(raw)
    assert service.client.get("/healthz").status_code == 200


def test_endless_headers_are_cut_off(service):
    with socket.create_connection((service.listen.host, service.listen.port), PATIENCE_S) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n")
        cut_off = False
        for number in range(100_000):
            try:
                raw.sendall(b"x-%d: y\r\n" % number)
            except OSError:
                cut_off = True
                break
    assert cut_off


def test_a_client_that_does_not_finish_its_body_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(web, "BODY_WITHIN_S", 0.3)
    with (
        live_service(tmp_path) as service,
        socket.create_connection((service.listen.host, service.listen.port), PATIENCE_S) as raw,
    ):
        raw.sendall(
            b"POST /payments HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"
            b"authorization: Bearer " + service.tokens["payments"].encode() + b"\r\n"
            b"content-type: application/json\r\n\r\n{"
        )
        assert b" 408 " in raw.recv(1000)


def test_an_address_that_others_can_reach_needs_tls():
    for host in ("0.0.0.0", "192.0.2.7", "::", "example.org"):  # noqa: S104
        with pytest.raises(ParameterError, match="needs TLS"):
            Listen(host=host)
    for host in ("127.0.0.1", "::1", "localhost"):
        assert not Listen(host=host).tls


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The server's certificate, which stands for itself, and a client's with an authority."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "crt").write_text(new_certificate(folder / "key", "127.0.0.1"))
    return client_certificate(folder, "core banking")


def test_with_tls_a_client_certificate_stands_for_a_token(tmp_path, keys, payments):
    listen = Listen(
        port=free_port(),
        certificate=keys / "crt",
        key=keys / "key",
        client_ca=keys / "client-ca.crt",
    )

    def client(folder=None):
        context = ssl.create_default_context(cafile=str(keys / "crt"))
        if folder is not None:
            context.load_cert_chain(folder / "client.crt", folder / "client.key")
        return httpx.Client(base_url=listen.address, verify=context)

    with live_service(tmp_path, listen=listen) as service:
        with client() as stranger:
            assert stranger.post("/payments", json=payments[0]).status_code == 401
            page = stranger.get("/login")
            assert "strict-transport-security" in page.headers
            form = {"csrf": hidden(page.text), "token": service.tokens["desk"]}
            set_ = [page, stranger.post("/login", data=form)]
            form = {"csrf": hidden(stranger.get("/").text)}
            set_.append(stranger.post("/logout", data=form))
            cookies = [one for page in set_ for one in page.headers.get_list("set-cookie")]
            assert len(cookies) == 4
            for cookie in cookies:  # or a browser would not take it, or not delete it
                assert cookie.startswith("__Host-pv4fad-alert-desk-")
                assert {"Path=/", "Secure"} <= set(cookie.split("; "))
                assert "Domain" not in cookie
        with client(keys) as known:
            assert known.post("/payments", json=payments[0]).status_code == 200
            # A certificate is no person: the desk wants to know who it is.
            assert known.get("/").status_code == 303
            assert known.get("/metrics").status_code == 401
        foreign = client_certificate(tmp_path / "foreign", "core banking")
        with client(foreign) as foreigner, pytest.raises(httpx.HTTPError):
            foreigner.get("/healthz")


# Logs.


def test_neither_secrets_nor_payments_are_in_the_log(tmp_path, payments, caplog):
    caplog.set_level(logging.DEBUG)
    with live_service(tmp_path) as service:
        service.post("/payments/batch", payments[:50])
        service.post("/payments", payments[0] | {"SettlementAmount": 7.25})
        service.post("/payments", payments[0] | {"MessageId": "new", "SettlementAmount": "x7"})
        person = service.log_in()
        person.get("/?text=SEARCHED")
        _, cookie = session_cookie(person)
        service.client.post("/payments", headers={"authorization": "Bearer GUESSED"})
    own = [r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    logged = "\n".join(own)
    words = [
        *service.tokens.values(),
        cookie,
        "SEARCHED",
        "GUESSED",
        payments[0]["OrderingAccount"],
    ]
    for word in (*words, payments[0]["MessageId"]):
        assert word not in logged
