"""`pv4fad params` prints what the parties compute, docs/operate/parameters.md is what it prints."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.cli.params import default_model, paper_model, plan_run
from pv4fad.forest.structure import PublicSizes

DOC = Path(__file__).parents[1] / "docs" / "operate" / "parameters.md"
REPORTS = re.findall(
    r"^```text\n\$ (pv4fad params [^\n]*)\n(.*?)^```$", DOC.read_text(), re.M | re.S
)
ACCOUNTS = ["--pns-accounts", "100000", "--bank-accounts", "100000"]


def test_the_doc_holds_reports_of_three_sizes_and_of_both_models():
    sizes = [re.findall(r"accounts (\d+)", command) for command, _ in REPORTS]
    same = ["100000", "100000"]
    assert sizes == [same, ["400000", "100000"], ["100000", "2000000"], same]
    assert ["--model paper" in command for command, _ in REPORTS] == [False, False, False, True]


@pytest.mark.parametrize(("command", "printed"), REPORTS, ids=[command for command, _ in REPORTS])
def test_the_doc_is_what_the_command_prints(command, printed):
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0
    assert result.output == printed


def test_the_report_holds_the_bounds_of_the_run():
    model = ["--model", "paper", "--scoring", "votes", "--trees", "20", "--groups", "8"]
    options = ["--banks", "5", "--node-sets", "2", "--atoms", "13", "--bound", "4"]
    privacy = ["--epsilon", "0.5", "--noise", "per-bank", "--honest-banks", "3"]
    result = CliRunner().invoke(app, ["params", *ACCOUNTS, *model, *options, *privacy, "--json"])
    report = json.loads(result.output)
    parameters = plan_run(
        paper_model(PublicSizes(20, 8, 2, 2, 13), 4, "sealed"),
        100_000,
        100_000,
        5,
        epsilon="0.5",
        noise="per-bank",
        honest_banks=3,
    )
    assert report["sums"]["plain modulus t"] == parameters.plain_modulus
    assert report["sums"]["largest sum"] == parameters.largest_sum < parameters.plain_modulus / 2
    assert report["sums"]["sensitivity"] == 8
    assert report["tables"]["log2 false match"] == {
        "log2": parameters.log2_false_match,
        "limit": -20.0,
    }
    training = report["sanitising"]["log2 distance in training"]
    assert training["log2"] == parameters.log2_distance < training["limit"] == -30
    bounds = report["static noise bounds, log2 of |message + t·noise|"]
    for name, bound in parameters.bounds.items():
        assert bounds[name] == pytest.approx(bound.steps, abs=0.05)
        assert report["sanitising"][name]["log2 flood"] == pytest.approx(
            bound.flood.range_bits, abs=0.05
        )
    messages = report["messages in bytes, over all banks"]
    n_blocks = sum(plan.layout.n_blocks for plan in parameters.tables)
    assert {parameters.strips(plan).n for plan in parameters.tables} == {1}
    assert messages["2 digits, S → B"]["count"] == 19 * n_blocks
    assert messages["3 bits, S → B"]["count"] == 9 * n_blocks
    assert messages["3 remainders, S → B"]["count"] == 11 * n_blocks
    assert messages["9 label masks, A → B"]["bytes"] == 20 * 8 * 3 * 5 * 8


@pytest.mark.parametrize("sets", ["fine", "coarse"])
@pytest.mark.parametrize("absent", ["class", "ordinary"])
def test_the_default_model_sends_counts_and_asks_in_rounds(sets, absent):
    options = ["--sets", sets, "--absent", absent, "--banks", "4", "--json"]
    report = json.loads(CliRunner().invoke(app, ["params", *ACCOUNTS, *options]).output)
    model = default_model(sets, absent)
    parameters = plan_run(
        model, 100_000, 100_000, 4, epsilon="1", noise="distributed", honest_banks=2
    )
    assert report["sums"]["honest banks"] == 2  # half of them
    assert report["sums"]["sums"] == 18 * model.sizes.n_sets
    assert report["sums"]["sensitivity"] == parameters.sensitivity
    assert report["sums"]["plain modulus t"] == parameters.plain_modulus
    messages = report["messages in bytes, over all banks"]
    assert messages["6 noisy counts, A → S"]["count"] == 18 * model.sizes.n_sets
    n_share_blocks = 2 * sum(plan.layout.n_blocks for plan in parameters.tables)
    assert messages["11 queries, S → B, each round"]["count"] == n_share_blocks
    assert not [name for name in messages if "label" in name]


@pytest.mark.parametrize("model", ["evidence", "paper"])
def test_sides_and_classes_are_those_of_the_schema_and_so_are_the_words(model):
    insurer = Path(__file__).parents[1] / "examples" / "insurer" / "schema.toml"
    options = [*ACCOUNTS, "--schema", str(insurer), "--model", model]
    report = json.loads(CliRunner().invoke(app, ["params", *options, "--json"]).output)
    if model == "evidence":  # in each of 18 cells, ordinary and the other three
        assert report["sums"]["sums"] == 18 * 4
    table = report["tables"]["blocks"]
    messages = report["messages in bytes, over all holders"]
    assert messages["3 classes, S → B"]["count"] == 3 * table
    text = CliRunner().invoke(app, ["params", *options]).output
    assert "records declared by each holder" in text
    assert not re.search("account|bank", text)


def test_released_labels_go_to_the_payment_network_and_are_asked_about_in_rounds():
    options = ["--model", "paper", "--json"]
    report = json.loads(CliRunner().invoke(app, ["params", *ACCOUNTS, *options]).output)
    messages = report["messages in bytes, over all banks"]
    assert messages["9 label masks, A → S"]["count"] == 816
    assert "11 queries, S → B, each round" in messages
    assert not [name for name in messages if name.startswith("10")]


PAPER = ["--model", "paper"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([*PAPER, "--bound", "1000"], "lower the bound"),
        (["--bound", "2"], "bound is an option of model paper only"),
        (["--scoring", "votes"], "scoring is an option of model paper only"),
        (["--bank-accounts", "100000000"], "two different records pass for one"),
        (["--honest-banks", "2"], "2 honest parties"),
        (["--noise", "none"], "epsilon none"),
        (["--epsilon", "much"], "expected a number"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_parameter_named(options, named, command_line):
    code, _, err = command_line("params", *ACCOUNTS, *options)
    assert (code, named in err) == (2, True), err
