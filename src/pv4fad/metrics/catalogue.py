"""Every metric that a process of PV4FAD shows; no other module spells their names.

A counter has the ending `_total` where it is read, a histogram `_bucket`, `_sum` and `_count`.
`docs/operate/observability.md` lists them, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]
Where = Literal["all", "station", "payment network", "bank", "aggregator", "hub", "service"]
"""Which processes show a metric: any party's station, that of a role, the hub, which is in that of
the aggregator, or the live service."""
_CATALOGUE: list[Metric] = []


@dataclass(frozen=True)
class Metric:
    """One of them, and how its values are shown."""

    where: Where
    kind: Kind
    name: str
    """As it is read, with the ending of a counter."""
    text: str
    labels: Labels = ()

    def __post_init__(self) -> None:
        _CATALOGUE.append(self)

    def of(self, value: float) -> Family:
        """Without labels."""
        return self.by({(): value})

    def by(self, values: Mapping[Labels, float]) -> Family:
        """The value of each combination of labels."""
        family: CounterMetricFamily | GaugeMetricFamily
        if self.kind == "counter":
            name = self.name.removesuffix("_total")
            family = CounterMetricFamily(name, self.text, labels=self.labels)
        else:
            family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(list(labels), value)
        return family

    def distributed(self, ends: Sequence[float], counts: Sequence[int], total: float) -> Family:
        """A histogram: how many there are up to each end, and in all; the sum of their values."""
        family = HistogramMetricFamily(self.name, self.text)
        buckets = list(zip([*map(str, ends), "+Inf"], map(float, counts), strict=True))
        family.add_metric([], buckets, total)
        return family


def catalogue() -> tuple[Metric, ...]:
    """All metrics."""
    return tuple(_CATALOGUE)


BUILD = Metric(
    "all",
    "gauge",
    "pv4fad_build_info",
    "1; which version runs here, and whose process it is.",
    ("version", "role", "party"),
)
ERRORS = Metric(
    "all",
    "counter",
    "pv4fad_errors_total",
    "Errors, by kind; `unexpected` are mistakes in the program.",
    ("kind",),
)
FREE = Metric("all", "gauge", "pv4fad_free_bytes", "Free on the disk of the party's folder.")

CONNECTED = Metric(
    "station", "gauge", "pv4fad_connected", "1 if the station is connected with the hub."
)
DISCONNECTIONS = Metric(
    "station", "counter", "pv4fad_disconnections_total", "How often that connection was lost."
)
STATE = Metric(
    "station",
    "gauge",
    "pv4fad_state",
    "1 for the present state of the station: idle, busy, done or failed.",
    ("state",),
)
SESSIONS = Metric(
    "station", "counter", "pv4fad_sessions_total", "Sessions that the relay has begun."
)
MESSAGES = Metric(
    "station",
    "counter",
    "pv4fad_messages_total",
    "Messages of the protocol, sent or received.",
    ("direction", "peer"),
)
MESSAGE_BYTES = Metric(
    "station", "counter", "pv4fad_message_bytes_total", "Their bytes.", ("direction", "peer")
)
LAST_MESSAGE = Metric(
    "station",
    "gauge",
    "pv4fad_last_message_time_seconds",
    "When the latest one was sent or received.",
    ("direction",),
)
WORK = Metric(
    "station",
    "counter",
    "pv4fad_work_seconds_total",
    "Seconds at work, by the phase of the message that set the work off.",
    ("phase",),
)
WAITING = Metric(
    "station",
    "gauge",
    "pv4fad_waiting",
    "What waits: messages to be handled, fragments to be sent, errands.",
    ("queue",),
)
JOBS = Metric(
    "payment network",
    "counter",
    "pv4fad_jobs_total",
    "Jobs that the payment network has led, by kind and outcome (done, failed).",
    ("kind", "outcome"),
)
WORKERS_DIED = Metric(
    "station",
    "counter",
    "pv4fad_worker_restarts_total",
    "How often worker processes have died, and new ones were started.",
)
CERTIFICATE = Metric(
    "station",
    "gauge",
    "pv4fad_certificate_expiry_time_seconds",
    "When the certificate on a party's card expires.",
    ("party",),
)
STORE = Metric("station", "gauge", "pv4fad_store_bytes", "The size of the party's store.")

EPSILON_SPENT = Metric(
    "bank", "gauge", "pv4fad_epsilon_spent", "ε spent over all runs; +Inf after one without noise."
)
EPSILON_LIMIT = Metric(
    "bank", "gauge", "pv4fad_epsilon_limit", "The bank's limit for ε; +Inf: none."
)
DELTA_SPENT = Metric("bank", "gauge", "pv4fad_delta_spent", "δ of the last 365 days.")
DELTA_LIMIT = Metric("bank", "gauge", "pv4fad_delta_limit", "The bank's limit for it.")
LAYERS = Metric(
    "bank",
    "gauge",
    "pv4fad_layers_today",
    "Rounds of questions, or layers of votes, answered today (UTC).",
    ("table",),
)
LAYERS_LIMIT = Metric(
    "bank", "gauge", "pv4fad_layers_limit", "How many the bank answers per table and day."
)
TICKS_LEFT = Metric(
    "bank", "gauge", "pv4fad_live_ticks_left", "Live queries that the bank still answers today."
)
TICKS_LIMIT = Metric("bank", "gauge", "pv4fad_live_ticks_limit", "How many it answers in a day.")
LIVE_ANSWERS = Metric(
    "bank",
    "counter",
    "pv4fad_live_answers_total",
    "Live queries, by what became of them: answered, or why they were refused.",
    ("outcome",),
)
NOTICES = Metric(
    "bank", "gauge", "pv4fad_notices", "Alerts that were handed over to the bank, in its store."
)
DAYS_AHEAD = Metric(
    "bank",
    "gauge",
    "pv4fad_budget_days_ahead",
    "How many days a budget (delta, layers, ticks) is ahead of the clock; above 0, one was wrong.",
    ("budget",),
)

POSITIVES = Metric(
    "aggregator",
    "gauge",
    "pv4fad_metered_positives_today",
    "Metered runs: positive answers of a bank that were passed on today (UTC).",
    ("bank",),
)
STOPPED = Metric(
    "aggregator",
    "gauge",
    "pv4fad_metered_stopped_at",
    "Metered runs: the release number at which a bank's answers were stopped last; -1: never,"
    " -2: a number that was lost with a store.",
    ("bank",),
)

METERED_AHEAD = Metric(
    "aggregator",
    "gauge",
    "pv4fad_metered_days_ahead",
    "Metered runs: how many days the count of a bank's answers is ahead of the clock.",
    ("bank",),
)

HUB_CONNECTED = Metric(
    "hub", "gauge", "pv4fad_hub_connected", "1 if a party's station is connected.", ("party",)
)
HUB_HEARD = Metric(
    "hub",
    "gauge",
    "pv4fad_hub_last_heard_time_seconds",
    "When its station said something last.",
    ("party",),
)
HUB_BYTES = Metric(
    "hub",
    "counter",
    "pv4fad_hub_bytes_total",
    "Bytes that the relay has received from a party, and sent to it.",
    ("direction", "party"),
)
HUB_WAITING = Metric(
    "hub",
    "gauge",
    "pv4fad_hub_waiting_bytes",
    "Bytes that a party has not acknowledged yet.",
    ("party",),
)
HUB_JOBS = Metric(
    "hub",
    "counter",
    "pv4fad_hub_jobs_total",
    "Jobs, by kind and outcome (finished, failed).",
    ("kind", "outcome"),
)
HUB_RUNNING = Metric(
    "hub", "gauge", "pv4fad_hub_job_running", "1 if a job of this kind is under way.", ("kind",)
)
HUB_STARTED = Metric(
    "hub",
    "gauge",
    "pv4fad_hub_job_started_time_seconds",
    "When the latest job of this kind was started.",
    ("kind",),
)
HUB_FAILED = Metric("hub", "gauge", "pv4fad_hub_job_failed", "1 if the latest job has failed.")
HUB_REFUSED = Metric(
    "hub",
    "counter",
    "pv4fad_hub_refused_total",
    "Connections and calls that the hub has refused, or ended because of what was sent.",
)
HUB_LIVE = Metric(
    "hub",
    "counter",
    "pv4fad_hub_live_messages_total",
    "Live messages passed on to a party, or dropped because it did not take them.",
    ("receiver", "outcome"),
)

PAYMENTS = Metric(
    "service", "counter", "pv4fad_payments_total", "Payments decided, by how.", ("decided",)
)
ALERTS = Metric("service", "counter", "pv4fad_alerts_total", "Alerts, by level.", ("level",))
REFUSED = Metric(
    "service",
    "counter",
    "pv4fad_refused_total",
    "Payments refused because too many were under way.",
)
LATENCY = Metric(
    "service",
    "histogram",
    "pv4fad_latency_seconds",
    "From the request to the written decision.",
)
UNDER_WAY = Metric("service", "gauge", "pv4fad_under_way", "Payments under way.")
ALERTS_NEW = Metric(
    "service", "gauge", "pv4fad_alerts_new", "Alerts that nobody has confirmed or dismissed."
)
NOTICES_WAITING = Metric(
    "service",
    "gauge",
    "pv4fad_notices_waiting",
    "Alerts handed over that have not reached their bank.",
    ("bank",),
)
BANK_ANSWERING = Metric(
    "service", "gauge", "pv4fad_bank_answering", "1 if a bank answers live queries.", ("bank",)
)
LIVE_QUERIES = Metric(
    "service",
    "counter",
    "pv4fad_live_queries_total",
    "Live queries sent, asked or not.",
    ("bank",),
)
LIVE_QUESTIONS = Metric(
    "service", "counter", "pv4fad_live_questions_total", "Questions in them.", ("bank",)
)
LIVE_REPLIES = Metric(
    "service",
    "counter",
    "pv4fad_live_replies_total",
    "Replies to live queries, asked or not.",
    ("bank",),
)
LIVE_BYTES = Metric(
    "service", "counter", "pv4fad_live_bytes_total", "Of live queries and replies.", ("bank",)
)
LIVE_LOST = Metric(
    "service", "counter", "pv4fad_live_lost_total", "Live queries without a reply.", ("bank",)
)
LIVE_MISSED = Metric(
    "service",
    "counter",
    "pv4fad_live_missed_total",
    "Ticks at which a bank was sent nothing: no query was ready in time.",
    ("bank",),
)
LIVE_WORKERS_DIED = Metric(
    "service",
    "counter",
    "pv4fad_live_worker_restarts_total",
    "How often a worker process that makes queries has ended, and was started again.",
)
NEWCOMERS = Metric(
    "service", "gauge", "pv4fad_new_accounts", "Accounts that wait for the next match."
)
JOURNAL = Metric("service", "gauge", "pv4fad_journal_bytes", "The size of the journal on disk.")
DRIFT = Metric(
    "service",
    "gauge",
    "pv4fad_stability_index",
    "Drift of the last day against training, of the score and of each feature.",
    ("of",),
)
