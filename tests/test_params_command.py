"""`pv4fad params` prints what the parties compute, docs/parameters.md is what it prints."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.cli.params import plan_run
from pv4fad.forest.structure import PublicSizes

DOC = Path(__file__).parents[1] / "docs" / "parameters.md"
REPORTS = re.findall(
    r"^```text\n\$ (pv4fad params [^\n]*)\n(.*?)^```$", DOC.read_text(), re.M | re.S
)
ACCOUNTS = ["--pns-accounts", "100000", "--bank-accounts", "100000"]


def test_the_doc_holds_three_reports():
    sizes = [re.findall(r"accounts (\d+)", command) for command, _ in REPORTS]
    assert sizes == [["100000", "100000"], ["400000", "100000"], ["100000", "2000000"]]


@pytest.mark.parametrize(("command", "printed"), REPORTS, ids=[command for command, _ in REPORTS])
def test_the_doc_is_what_the_command_prints(command, printed):
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0
    assert result.output == printed


def test_the_report_holds_the_bounds_of_the_run():
    options = ["--banks", "5", "--trees", "20", "--groups", "8", "--sets", "2", "--atoms", "13"]
    privacy = ["--bound", "4", "--epsilon", "0.5", "--noise", "per-bank", "--honest-banks", "3"]
    result = CliRunner().invoke(app, ["params", *ACCOUNTS, *options, *privacy, "--json"])
    report = json.loads(result.output)
    parameters = plan_run(
        100_000,
        100_000,
        5,
        PublicSizes(20, 8, 2, 2, 13),
        bound=4,
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
        assert report["sanitising"][name]["log2 flood"] == bound.flood.range_bits
    messages = report["messages in bytes, over all banks"]
    n_blocks = sum(plan.layout.n_blocks for plan in parameters.tables)
    assert messages["1 planes, S → B"]["count"] == 52 * n_blocks
    assert messages["9 label masks, A → B"]["bytes"] == 20 * 8 * 3 * 5 * 8


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--bound", "1000"], "bound = 1000"),
        (["--bank-accounts", "10000000"], "code: 43-bit tags"),
        (["--honest-banks", "2"], "honest_banks = 2"),
        (["--noise", "none"], "epsilon none"),
        (["--epsilon", "much"], "expected a number"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_parameter_named(options, named, command_line):
    code, _, err = command_line("params", *ACCOUNTS, *options)
    assert (code, named in err) == (2, True), err
