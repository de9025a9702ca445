"""A whole federation in processes of its own, watched: every metric is shown, and neither figures
nor logs name an account or a payment, or hold a secret."""

import json
import re
import sys
from contextlib import ExitStack

import httpx
import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.live_service import free_port, plain
from tests.kit.served_party import (
    BANKS,
    PASSPHRASE,
    PATIENCE_S,
    PATIENT,
    being_served,
    is_there,
    payments_to_come,
    taking_part,
    trained_parties,
)
from tests.kit.waiting import comes_true

from pv4fad import __version__
from pv4fad.deployment.card import read_card
from pv4fad.deployment.hub.carrier import HubCarrier
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder, read_identity
from pv4fad.metrics.catalogue import catalogue
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.service.access import Tokens
from pv4fad.store.sealing import Passphrase

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends processes by signals")
SERVICE = "service"
SHOWN = {
    AGGREGATOR: {"all", "station", "aggregator", "hub"},
    PAYMENT_NETWORK: {"all", "station", "payment network"},
    "bank01": {"all", "station", "bank"},
    "bank02": {"all", "station", "bank"},
    SERVICE: {"all", "service"},
}
ACCOUNT_COLUMNS = ("OrderingAccount", "BeneficiaryAccount", "MessageId", "UETR")


class Watched:
    """The processes of a federation; what they have shown and said."""

    def __init__(self, root):
        self.root, self.scenario = root, trained_parties(root)
        self.parties = (AGGREGATOR, PAYMENT_NETWORK, *BANKS)
        self.addresses = {}
        for name in self.parties:
            address = f"127.0.0.1:{free_port()}"
            settings = root / name / "party.toml"
            own = f'metrics = "{address}"\nworkers = 0\n'  # which are quicker to start
            live = PATIENT if name == PAYMENT_NETWORK else ""
            settings.write_text(own + settings.read_text() + live)
            self.addresses[name] = f"http://{address}"
        tokens = Tokens(root / PAYMENT_NETWORK)
        self.tokens = {use: tokens.create("test", use) for use in ("payments", "metrics", "desk")}
        self.tokens["inbox"] = Tokens(root / "bank01").create("test", "desk")
        self.payments = plain(payments_to_come(self.scenario))

    def start(self, stack):
        for name in (AGGREGATOR, PAYMENT_NETWORK, "bank02"):
            stack.enter_context(taking_part(self.root / name))
        stack.enter_context(being_served(self.root / "bank01", "bank"))
        assert comes_true(lambda: all(map(self.is_ready, self.parties)), PATIENCE_S)
        served = being_served(self.root / PAYMENT_NETWORK, PAYMENT_NETWORK)
        self.addresses[SERVICE], _ = stack.enter_context(served)
        assert comes_true(lambda: is_there(self.addresses[SERVICE]), PATIENCE_S)

    def is_ready(self, name):
        try:
            return httpx.get(f"{self.addresses[name]}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def figures(self, name):
        header = {"authorization": f"Bearer {self.tokens['metrics']}"} if name == SERVICE else {}
        answer = httpx.get(f"{self.addresses[name]}/metrics", headers=header, timeout=PATIENCE_S)
        assert answer.status_code == 200
        return answer.text

    def job(self, kind):
        hub, carrier = PartyFolder(self.root / AGGREGATOR), HubCarrier()
        carrier.start_job(hub, kind)
        assert comes_true(lambda: carrier.status(hub).state != "running", PATIENCE_S)
        return carrier.status(hub).state

    def send(self, payments):
        header = {"authorization": f"Bearer {self.tokens['payments']}"}
        address = f"{self.addresses[SERVICE]}/payments/batch"
        answer = httpx.post(address, json=payments, headers=header, timeout=PATIENCE_S)
        assert answer.status_code == 200

    def secrets(self):
        """What no log and no figure may hold."""
        ids = {value for one in self.payments for name in ACCOUNT_COLUMNS if (value := one[name])}
        for file in self.scenario.rglob("*.csv"):
            table = pl.read_csv(file, infer_schema=False)
            for column in {*ACCOUNT_COLUMNS, "Account"} & set(table.columns):
                ids |= set(table[column].drop_nulls())
        keys = set()
        for name in self.parties:
            folder = PartyFolder(self.root / name)
            keys |= {
                line for line in folder.file(KEY_FILE).read_text().splitlines() if line[0] != "-"
            }
            with folder.open_store(Passphrase(PASSPHRASE)) as store:
                identity = read_identity(store)
            keys |= {identity.signing_secret.hex(), identity.pairwise_secret.hex()}
        return ids, keys | {PASSPHRASE, *self.tokens.values()}


def samples(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def names_of(text):
    return {name for name in re.findall(r"^# TYPE (\S+)", text, re.M) if name.startswith("pv4fad_")}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Payments that ask, a job that succeeds, one that fails at the payment network, and one that
    fails because of a bank's data; with everything that was written and shown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PV4FAD_LOG_FORMAT", "json")
        found = Watched(tmp_path_factory.mktemp("parties"))
        with ExitStack() as stack:
            found.start(stack)
            found.send(found.payments[:150])
            assert found.job("match") == "finished"
            found.shown = {name: found.figures(name) for name in SHOWN}
            assert found.job("resume") == "failed"  # there is nothing to resume
            found.failed = {name: found.figures(name) for name in found.parties}
            accounts = found.scenario / "train" / "bank02" / "bank_dataset.csv"
            *rows, last = accounts.read_text().splitlines()
            accounts.write_text("\n".join([*rows, last.rpartition(",")[0] + ",none"]))
            assert found.job("match") == "failed"
            found.at_last = {name: found.figures(name) for name in SHOWN}
    found.logs = {path.stem: path.read_text() for path in found.root.glob("*.log")}
    return found


def test_every_process_shows_the_metrics_of_its_kind_and_no_others(watched):
    for process, text in watched.shown.items():
        expected = {one.name for one in catalogue() if one.where in SHOWN[process]}
        assert names_of(text) == expected, process
        shown = {line.split("{")[0] for line in text.splitlines() if line.startswith("pv4fad_")}
        for one in catalogue():
            labels = re.findall(rf"^{one.name}(?:_bucket)?{{(.*?)}}", text, re.M)
            for found in labels:
                names = set(re.findall(r'(\w+)="', found)) - {"le"}
                assert names == set(one.labels), one.name
        assert shown, process


def test_what_is_shown_is_what_happened(watched):
    hub, bank = samples(watched.shown[AGGREGATOR]), samples(watched.shown["bank02"])
    network, service = samples(watched.shown[PAYMENT_NETWORK]), samples(watched.shown[SERVICE])
    # A job that did not fail, then one that did.
    failed, why = (samples(watched.failed[name]) for name in (AGGREGATOR, PAYMENT_NETWORK))
    assert failed[("pv4fad_hub_job_failed",)] == 1
    assert failed["pv4fad_hub_jobs_total", "resume", "failed"] == 1
    assert why["pv4fad_jobs_total", "resume", "failed"] == 1
    assert why["pv4fad_errors_total", "StoreError"] == 1
    assert hub[("pv4fad_hub_job_failed",)] == 0
    assert hub["pv4fad_hub_jobs_total", "match", "finished"] == 1
    assert hub["pv4fad_hub_job_running", "match"] == 0
    assert network["pv4fad_jobs_total", "match", "done"] == 1
    # Everybody is there, and what one sends another receives.
    assert all(hub["pv4fad_hub_connected", name] == 1 for name in watched.parties)
    for figure in ("pv4fad_messages_total", "pv4fad_message_bytes_total"):
        sent, got = (figure, "sent", PAYMENT_NETWORK), (figure, "received", "bank02")
        assert bank[sent] == network[got] > 0
    assert bank["pv4fad_work_seconds_total", "match"] > 0
    assert (
        hub["pv4fad_hub_bytes_total", "received", "bank02"]
        > bank["pv4fad_message_bytes_total", "sent", PAYMENT_NETWORK]
    )
    assert bank[("pv4fad_connected",)] == network[("pv4fad_connected",)] == 1
    # What the bank allows: this federation trains without noise.
    assert bank[("pv4fad_epsilon_spent",)] == float("inf")
    assert 0 < bank[("pv4fad_delta_spent",)] < bank[("pv4fad_delta_limit",)] == 2**-10
    assert bank["pv4fad_live_answers_total", "answered"] > 0
    assert bank[("pv4fad_live_ticks_left",)] < bank[("pv4fad_live_ticks_limit",)]
    year_s = 365 * 24 * 3600
    now = hub["pv4fad_hub_last_heard_time_seconds", "bank01"]
    assert bank["pv4fad_certificate_expiry_time_seconds", "bank01"] > now + 9 * year_s
    # The service.
    decided = [value for key, value in service.items() if key[0] == "pv4fad_payments_total"]
    assert sum(decided) == service[("pv4fad_latency_seconds_count",)] == 150
    assert service["pv4fad_bank_answering", "bank02"] == 1
    assert service["pv4fad_live_queries_total", "bank02"] > 0
    assert service[("pv4fad_journal_bytes",)] > 10_000
    assert service["pv4fad_build_info", PAYMENT_NETWORK, "payment-network", __version__] == 1
    # A bank whose data are wrong.
    assert samples(watched.at_last["bank02"])["pv4fad_errors_total", "DataError"] == 1
    assert samples(watched.at_last["bank02"])["pv4fad_state", "idle"] == 1  # the job is over


def test_every_line_of_a_log_is_an_object_that_says_who_and_what(watched):
    events = {}
    for name in watched.parties:
        lines = [json.loads(line) for line in watched.logs[name].splitlines()]
        assert {line["party"] for line in lines} == {name}
        assert all(line["time"] and line["level"] and line["event"] for line in lines)
        events[name] = lines
    assert "match" in {line["phase"] for line in events["bank02"]}
    (ended,) = [
        line["figures"]
        for line in events[PAYMENT_NETWORK]
        if line["event"].startswith("job match: done")
    ]
    assert ended["seconds"] >= ended["match_s"] > 0
    (passed,) = [
        line["figures"]
        for line in events[AGGREGATOR]
        if line["event"].endswith("(match): finished")
    ]
    assert passed["bytes"] > 10_000
    assert any(
        line["level"] == "error" and line["event"].startswith("DataError: ")
        for line in events["bank02"]
    )


def test_no_log_and_no_figure_names_an_account_or_a_payment_or_holds_a_secret(watched):
    ids, keys = watched.secrets()
    assert len(ids) > 3_000
    assert min(map(len, ids)) >= 8  # or they could be part of other words
    assert len(keys) > 15
    texts = [*watched.logs.values()]
    for shown in (watched.failed, watched.shown, watched.at_last):
        texts += shown.values()
    assert len(texts) >= 18
    said = "\n".join(texts)
    assert len(said) > 20_000
    # Ids are words of their own wherever they are said; keys may be part of anything.
    words = set(re.findall(r"[\w-]+", said))
    assert not ids & words
    assert not [key for key in keys if key in said]
    for name in watched.parties:  # what is public may be there, and this looks for nothing else
        assert read_card(watched.root / name / "card.json").name in said
