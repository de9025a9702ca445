"""Alert rules: what they name exists, and every alert has its section in the runbook.

`make check-deploy` calls `promtool check rules`, a program of Prometheus.  What that does not know
is checked here: which metrics and labels there are, and which values labels can have.
"""

import re
from pathlib import Path

import pytest
import yaml
from tests.kit.pages import anchors, rows, sections

from pv4fad.deployment.station_figures import STATES
from pv4fad.metrics.catalogue import catalogue
from pv4fad.metrics.figures import ERROR_KINDS, UNEXPECTED
from pv4fad.protocol.live.messages import REASONS
from pv4fad.service.decisions import HOWS

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus-alerts.yaml"
RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"
OBSERVABILITY = ROOT / "docs" / "operate" / "observability.md"
RULES = [
    rule
    for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
OF_PROMETHEUS = {"instance", "job", "le"}
"""Labels that Prometheus adds."""
_FUNCTIONS = {"changes", "histogram_quantile", "increase", "rate", "sum", "time"}
_WORDS = {"and", "or", "by", "on", "group_left", "offset", "Inf"}
_SELECTOR = re.compile(r"([a-zA-Z_:]\w*)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")
VALUES = {
    ("pv4fad_errors_total", "kind"): {*ERROR_KINDS, UNEXPECTED},
    ("pv4fad_state", "state"): set(STATES),
    ("pv4fad_waiting", "queue"): {"inbox", "outbox", "errands"},
    ("pv4fad_last_message_time_seconds", "direction"): {"sent", "received"},
    ("pv4fad_live_answers_total", "outcome"): {"answered", *REASONS},
    ("pv4fad_hub_live_messages_total", "outcome"): {"passed on", "dropped"},
    ("pv4fad_payments_total", "decided"): set(HOWS),
    ("pv4fad_stability_index", "of"): {"score"},
}


def read_names():
    """Every name under which a metric is read, with its labels."""
    found = {"up": {"job"}}
    for one in catalogue():
        endings = ("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",)
        found |= {one.name + ending: set(one.labels) for ending in endings}
    return found


def named(expression):
    """Metrics of an expression with their matchers, functions, and labels to group by."""
    grouped = {
        label.strip()
        for labels in _GROUPED.findall(expression)
        for label in labels.split(",")
        if label.strip()
    }
    rest = re.sub(r"\[\w+\]", "", _GROUPED.sub(" ", expression))
    metrics, functions = [], set()
    for match in _SELECTOR.finditer(rest):
        name, matchers = match.groups()
        if re.fullmatch(r"e\d+", name) or rest[match.start() - 1 : match.start()].isdigit():
            continue  # a number such as 5e9
        if rest[match.end() :].lstrip().startswith("(") and matchers is None:
            if name not in _WORDS:
                functions.add(name)
        elif name not in _WORDS:
            metrics.append((name, _MATCHER.findall(matchers or "")))
    return metrics, functions, grouped


@EACH_RULE
def test_a_rule_names_metrics_and_labels_that_the_code_shows(rule):
    known = read_names()
    metrics, functions, grouped = named(rule["expr"])
    assert metrics
    assert functions <= _FUNCTIONS
    labels = set(OF_PROMETHEUS)
    for name, matchers in metrics:
        assert name in known
        labels |= known[name]
        for label, how, value in matchers:
            assert label in known[name] | OF_PROMETHEUS
            if label not in OF_PROMETHEUS:
                values = value.split("|") if "~" in how else [value]
                assert set(values) <= VALUES[name, label]
    assert grouped <= labels
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= labels


def test_an_average_of_the_day_is_not_taken_before_there_was_a_day():
    """On the first one every hour would be far above it."""
    averages = [rule["expr"] for rule in RULES if "[1d])) / 24" in rule["expr"]]
    assert averages
    assert all("and on (instance)" in one and "offset 1d" in one for one in averages)


@EACH_RULE
def test_a_rule_has_its_section_in_the_runbook(rule):
    page, _, section = rule["annotations"]["runbook"].partition("#")
    assert ROOT / page == RUNBOOK
    assert section == rule["alert"].lower()
    assert section in anchors(RUNBOOK)
    text = sections(RUNBOOK)[rule["alert"]]
    for part in ("**Means**", "**Look**", "**Do**"):
        assert part in text


def test_the_runbook_has_no_section_of_an_alert_that_does_not_exist():
    alerts = {name for name in sections(RUNBOOK) if name.startswith("Pv4fad")}
    assert alerts == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("rate(pv4fad_no_such_total[5m]) > 0", "pv4fad_no_such_total"),
        ("sum by (le) (rate(pv4fad_latency_seconds_bucket[5m]))", "pv4fad_latency_seconds_bucket"),
        ("pv4fad_free_bytes < 5e9", "pv4fad_free_bytes"),
    ],
)
def test_names_in_an_expression_are_found(expression, name):
    metrics, _, _ = named(expression)
    assert [found for found, _ in metrics] == [name]


def test_the_page_lists_every_metric_as_the_code_has_it():
    listed = [row for row in rows(sections(OBSERVABILITY)["Metrics"]) if row[0].startswith("`")]
    expected = [
        [f"`{one.name}`", one.where, one.kind, ", ".join(one.labels), one.text]
        for one in catalogue()
    ]
    assert listed == expected
