"""The desk as people use it, in a real browser."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kit.live_service import (
    BANKS,
    KEY,
    free_port,
    hidden,
    live_service,
    live_world,
    serving,
    session_cookie,
)
from tests.kit.waiting import comes_true

from pv4fad.listening import Listen
from pv4fad.protocol.notify.state import ReceivedNotice
from pv4fad.service import desk, web
from pv4fad.service.access import Tokens
from pv4fad.service.alerts import desk_labels
from pv4fad.service.inbox import inbox_app
from pv4fad.service.journal import Journal

WINDOWS = pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")]
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """With the alerts of the first payments."""
    with live_service(tmp_path_factory.mktemp("desk")) as running:
        running.post("/payments/batch", live_world().payments[:-100])
        yield running


@pytest.fixture(scope="module")
def person(service):
    return service.log_in()


@pytest.fixture
def page(service, person, tab):
    """Opens a page in the browser, as somebody who has logged in."""

    def open_(path: str, *, width: int = 1280, scheme: str = "light") -> None:
        name, value = session_cookie(person)
        tab.call("Network.setCookie", name=name, value=value, url=service.listen.address)
        address = service.listen.address.rstrip("/") + path
        tab.open(address, width=width, height=800, scheme=scheme)

    return open_


@pytest.fixture(scope="module")
def numbers(person):
    """Of all alerts, the latest first."""
    parts = person.get("/").text.split('data-number="')[1:]
    found = [int(part.split('"')[0]) for part in parts]
    assert len(found) > 3
    return found


@pytest.fixture(scope="module")
def handed(person, numbers):
    return handable(person, numbers)


def handable(person, numbers):
    """An alert and a side whose account is at a bank that takes part."""
    for number in numbers:
        for side in ("ordering", "beneficiary"):
            if f"/alerts/{number}/hand-over/{side}" in person.get(f"/alerts/{number}").text:
                return number, side
    pytest.fail("no alert can be handed over")
    return None


def waits_for(tab, expression):
    """Of a page that is complete: half of one may lack its body, or what is clicked next."""
    complete = f"document.readyState === 'complete' && {expression}"
    assert comes_true(lambda: tab.value(complete)), expression


def press(tab, *keys):
    codes = {
        "Enter": {"windowsVirtualKeyCode": 13, "text": "\r"},
        "Tab": {"windowsVirtualKeyCode": 9},
    }
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            tab.call("Input.dispatchKeyEvent", type=kind, key=key, **text | codes.get(key, {}))


def click(tab, selector):
    """With the mouse, where it is."""
    x, y = tab.value(
        f"(one => {{ one.scrollIntoView({{block: 'center'}}); const box ="
        " one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })"
        f"(document.querySelector({selector!r}))"
    )
    at = {"x": x, "y": y, "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=kind, **at)


def log_in(tab, token):
    tab.value(
        f"document.getElementById('token').value = {token!r};"
        "document.querySelector('form.login').requestSubmit()"
    )
    waits_for(tab, "location.pathname === '/'")


def assert_fits(tab, width):
    """The page is as wide as the window, has its style, and asks nobody else for anything."""
    assert tab.problems() == []
    assert all(one.startswith("http://127.0.0.1:") for one in tab.requests())
    assert tab.value("document.documentElement.scrollWidth") <= width
    # Boxes that are cut off inside the window would not scroll the page.
    assert tab.value(
        "[...document.querySelectorAll('main *:not(thead *)')].every(one =>"
        " one.getBoundingClientRect().right <= document.documentElement.clientWidth + 1)"
    ), tab.value("location.pathname")
    assert tab.value("document.styleSheets[0].cssRules.length") > 50


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """Of a bank with some notices: its address, and a token."""
    folder, listen = tmp_path_factory.mktemp("inbox"), Listen(port=free_port())
    token = Tokens(folder).create("bob", "desk")
    account = "GB29NWBK60161331926819000000000042"
    notices = [
        ReceivedNotice(
            f"TEYQ3AFRI{n}-{'X' * 20 * n}",
            account[: 34 - 9 * n],
            n + 1,
            f"2026-05-0{n + 1}T10:20:30.000+00:00",
        )
        for n in range(3)
    ]
    with serving(inbox_app(folder, "bank01", lambda: notices), listen):
        yield listen.address, token


@WINDOWS
def test_every_page_fits_the_window_without_an_error_or_a_foreign_request(
    page, handed, tab, width, scheme
):
    number, side = handed
    for path in ("/", f"/alerts/{number}", f"/alerts/{number}/hand-over/{side}", "/watch"):
        page(path, width=width, scheme=scheme)
        assert_fits(tab, width)


@WINDOWS
def test_the_login_and_an_inbox_fit_the_window(inbox, tab, width, scheme):
    address, token = inbox
    tab.call("Network.clearBrowserCookies")
    tab.open(address, width=width, height=800, scheme=scheme)
    assert tab.value("location.pathname") == "/login"
    assert_fits(tab, width)
    tab.events.clear()
    log_in(tab, token)
    assert_fits(tab, width)
    assert tab.value("document.querySelectorAll('tbody tr').length") == 3
    press(tab, "/", *"TEYQ3AFRI2", "Enter")
    waits_for(tab, "document.querySelectorAll('tbody tr').length === 1")


def test_the_login_in_a_browser(service, tab):
    tab.call("Network.clearBrowserCookies")
    tab.open(service.listen.address, width=1280, height=800)
    assert tab.value("location.pathname") == "/login"
    assert tab.problems() == []
    tab.events.clear()
    log_in(tab, service.tokens["desk"])
    assert tab.value("document.cookie") == ""  # out of reach of scripts


def test_a_new_alert_comes_by_itself(page, service, tab, monkeypatch):
    page("/")
    before = tab.value("document.querySelectorAll('.alert').length")
    waits_for(tab, "document.getElementById('live').textContent.includes('by themselves')")
    answers = service.post("/payments/batch", live_world().payments[-100:]).json()
    n_new = sum(one["alert"] for one in answers)
    assert n_new > 0
    waits_for(tab, f"document.querySelectorAll('.alert').length === {before + n_new}")
    assert tab.value("document.querySelector('.alert').classList.contains('fresh')")
    # More than the page can be told: it is loaded again.
    monkeypatch.setattr(desk, "_MOST_MISSED", 0)
    latest = int(tab.value("document.querySelector('.alert').dataset.number"))
    more = [one | {"MessageId": f"{one['MessageId']}-more"} for one in live_world().payments[-100:]]
    answers = service.post("/payments/batch", more).json()
    latest += sum(one["alert"] for one in answers)
    waits_for(tab, f"document.querySelector('.alert')?.dataset.number === '{latest}'")
    assert tab.value("document.querySelector('.alert.fresh') === null")


def test_the_keyboard_goes_through_the_list_and_to_a_verdict(page, person, numbers, tab):
    page("/")
    press(tab, "j", "j", "k", "j")
    second = "document.querySelectorAll('.alert .open')[1] === document.activeElement"
    assert tab.value(second)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert tab.value(outline) == "solid"  # the focus can be seen
    press(tab, "/")
    assert tab.value("document.activeElement.id") == "text"
    press(tab, "j")  # is typed
    assert tab.value("document.activeElement.value") == "j"
    page(f"/alerts/{numbers[-1]}")
    press(tab, "d")
    assert tab.value("document.querySelector('[value=dismissed]').checked")
    assert tab.value("document.activeElement.id") == "note"
    tab.value("document.activeElement.blur()")
    press(tab, "u")
    waits_for(tab, "location.pathname === '/'")
    press(tab, "j", "Enter")
    waits_for(tab, "location.pathname.startsWith('/alerts/')")
    press(tab, "c", *"called", "Tab", "Enter")
    waits_for(tab, "document.querySelector('.said b')?.textContent === 'confirmed'")
    assert "called" in tab.value("document.querySelector('.said').textContent")


def test_an_alert_is_handed_over_by_clicks(page, person, numbers, tab):
    number, side = handable(person, numbers[::-1])
    page(f"/alerts/{number}")
    click(tab, f"a[href$='hand-over/{side}']")
    waits_for(tab, "document.querySelector('[name=confirm]') !== null")
    click(tab, "main form button")  # refused by the browser: nothing is confirmed
    assert "not delivered yet" not in person.get(f"/alerts/{number}").text
    click(tab, "[name=confirm]")
    click(tab, "main form button")
    waits_for(tab, f"location.pathname === '/alerts/{number}'")
    waits_for(tab, "document.body.textContent.includes('not delivered yet')")


def test_verdicts_are_kept_with_who_and_why_and_the_last_word_counts(service, person, numbers):
    number = numbers[0]
    csrf = hidden(person.get("/").text)
    for verdict, note in (("dismissed", "looked fine"), ("confirmed", "customer  called")):
        form = {"csrf": csrf, "verdict": verdict, "note": note}
        person.post(f"/alerts/{number}/verdict", data=form)
    shown = person.get(f"/alerts/{number}").text
    assert "looked fine" in shown
    assert "customer called" in shown
    assert "by desk person" in shown
    assert f'data-number="{number}"' in person.get("/?state=confirmed").text
    assert f'data-number="{number}"' not in person.get("/?state=new").text
    form = {"csrf": csrf, "verdict": "perhaps"}
    assert person.post(f"/alerts/{number}/verdict", data=form).status_code == 422
    form = {"csrf": csrf, "verdict": "confirmed", "note": "x" * 3000}
    assert person.post(f"/alerts/{number}/verdict", data=form).status_code == 422
    form = {"csrf": csrf, "verdict": "confirmed"}
    assert person.post("/alerts/999999/verdict", data=form).status_code == 422


def test_filters(person, numbers):
    def listed(query):
        return [int(one.split('"')[0]) for one in person.get(query).text.split('data-number="')[1:]]

    by_level = [listed(f"/?level={level}") for level in (1, 2, 3)]
    assert sorted(one for level in by_level for one in level) == sorted(listed("/"))
    assert listed("/?within=1h") == listed("/")
    text = person.get(f"/alerts/{numbers[1]}").text
    account = text.split('class="account">')[1].split("<")[0]
    assert numbers[1] in listed(f"/?text={account.lower()}")
    assert listed("/?text=nobody+is+called+this") == []
    assert listed("/?level=9&state=odd&within=ages&before=x") == listed("/")
    assert listed(f"/?before={numbers[1]}") == [one for one in listed("/") if one < numbers[1]]


def test_a_hand_over_needs_a_confirmation_and_is_recorded_once(service, person, numbers):
    number, side = handable(person, numbers)
    asks = person.get(f"/alerts/{number}/hand-over/{side}").text
    assert "cannot be taken back" in asks
    assert "SettlementAmount" not in asks
    path, csrf = f"/alerts/{number}/hand-over/{side}", hidden(asks)
    assert person.post(path, data={"csrf": csrf}).status_code == 422
    assert "not delivered yet" not in person.get(f"/alerts/{number}").text
    form = {"csrf": csrf, "confirm": "yes"}
    assert person.post(path, data=form).status_code == 303
    assert "not delivered yet" in person.get(f"/alerts/{number}").text
    assert person.post(path, data=form).status_code == 422
    assert person.get(f"/alerts/{number}/hand-over/nowhere").status_code == 404


def test_a_double_click_hands_over_once(tmp_path, monkeypatch):
    """The second comes before the first is in the journal."""
    read_form, act, n_forms = web.read_form, Journal.act, 0

    async def counting(request):
        nonlocal n_forms
        form = await read_form(request)
        n_forms += 1
        return form

    def slow(journal, action):
        assert comes_true(lambda: n_forms == 2)
        return act(journal, action)

    with live_service(tmp_path) as service, ThreadPoolExecutor(2) as clicks:
        answers = service.post("/payments/batch", live_world().payments).json()
        person = service.log_in()
        number, side = handable(person, range(sum(one["alert"] for one in answers)))
        form = {"csrf": hidden(person.get("/").text), "confirm": "yes"}
        monkeypatch.setattr(web, "read_form", counting)
        monkeypatch.setattr(Journal, "act", slow)
        path = f"/alerts/{number}/hand-over/{side}"
        found = [clicks.submit(person.post, path, data=form) for _ in range(2)]
        assert sorted(one.result().status_code for one in found) == [303, 422]
        assert person.get(f"/alerts/{number}").text.count("not delivered yet") == 1
    with Journal.open(tmp_path, KEY) as journal:
        assert [one["what"] for one in journal.actions()] == ["hand over"]


def test_what_no_notice_can_hold_is_not_handed_over(tmp_path):
    sides = ("OrderingAccount", "BeneficiaryAccount")
    long = [
        one | {name: f"{one[name]}{'X' * 1100}" for name in sides} for one in live_world().payments
    ]
    with live_service(tmp_path) as service:
        answers = service.post("/payments/batch", long).json()
        person = service.log_in()
        number, side = handable(person, range(sum(one["alert"] for one in answers)))
        page = person.get(f"/alerts/{number}").text
        form = {"csrf": hidden(page), "confirm": "yes"}
        refused = person.post(f"/alerts/{number}/hand-over/{side}", data=form)
        assert refused.status_code == 422
        assert "too long for a notice" in refused.text
        assert "not delivered yet" not in person.get(f"/alerts/{number}").text


def test_what_people_did_survives_a_restart_and_becomes_labels(tmp_path):
    payments = live_world().payments
    with live_service(tmp_path) as first:
        answers = first.post("/payments/batch", payments).json()
        alerts = [one["id"] for one in answers if one["alert"]]
        person = first.log_in()
        csrf = hidden(person.get("/").text)
        for number, verdict in (
            (0, "confirmed"),
            (1, "dismissed"),
            (2, "confirmed"),
            (2, "dismissed"),
        ):
            form = {"csrf": csrf, "verdict": verdict, "note": "kept"}
            person.post(f"/alerts/{number}/verdict", data=form)
        number, side = handable(person, range(len(alerts)))
        form = {"csrf": csrf, "confirm": "yes"}
        person.post(f"/alerts/{number}/hand-over/{side}", data=form)
    with live_service(tmp_path) as second:
        person = second.log_in()
        assert "kept" in person.get("/alerts/0").text
        assert person.get("/?state=confirmed").text.count('data-number="') == 1
        assert person.get("/?state=dismissed").text.count('data-number="') == 2
        shown = person.get(f"/alerts/{number}").text
        assert any(f"to {bank}" in shown for bank in BANKS)
    with Journal.open(tmp_path, KEY) as journal:
        assert desk_labels(journal) == {alerts[0]: 1, alerts[1]: 0, alerts[2]: 0}
