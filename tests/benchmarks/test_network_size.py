"""The arithmetic for large networks: equal to what was measured, and to the bounds of a run."""

from math import log2

import pytest
from typer.testing import CliRunner

from pv4fad_bench import network_size
from pv4fad_bench.app import app
from pv4fad_bench.network_size import Measured, Need, Network, Table, bench_network


class Silent:
    def begin(self, expected_s: float, n_steps: int) -> None:
        assert n_steps == 2

    def advance(self) -> None:
        pass


@pytest.fixture(scope="module")
def need() -> Need:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(network_size, "_SMALL", 1000)
        patched.setattr(network_size, "_FULL", 12_000)
        return bench_network(Network(40, 50_000, 2.0), 0, Silent())


def own_table(measured: Measured) -> Table:
    (plan,) = measured.parameters.tables
    return Table(plan.layout, *measured.parameters.banks.values(), 1)


def test_a_network_of_the_measured_bank_needs_what_was_measured(need):
    for measured in (need.small, need.full):
        table, job = own_table(measured), measured.job
        assert need.train_cpu_s(table) == pytest.approx(job.train_cpu_s)
        assert need.score_cpu_s(table) == pytest.approx(job.score_cpu_s)
        sent = need.train_bytes(table) + need.score_bytes(table)
        assert sent == pytest.approx(sum(one.n_bytes for one in job.traffic))
        assert all(job.checks.values())


def test_every_institution_has_a_table(need):
    assert sum(table.number for table in need.tables) == 40
    sizes = need.network.sizes
    assert sizes[0] == pytest.approx(4 * sizes[3], rel=0.01)
    assert abs(int(sizes.sum()) - 50_000) < 40


def test_bounds_are_those_of_a_run(need, monkeypatch):
    """Of the one bank that was measured, as its parameters have them."""
    full = need.full
    monkeypatch.setitem(need.__dict__, "tables", (own_table(full),))
    accounts, false_match, distance = need.limits()
    assert accounts.would_be == f"{full.parameters.tables[0].layout.n_accounts_declared:,}"
    assert false_match.would_be == f"{full.parameters.log2_false_match:.1f}"
    in_match = {k: n for k, n in full.parameters.n_sanitised.items() if k != "linear"}
    bounds = full.parameters.bounds
    exact = log2(sum(n * 2.0 ** -bounds[name].distance_bits for name, n in in_match.items()))
    assert distance.would_be == f"{exact:.1f}"
    assert all(one.holds for one in (accounts, false_match, distance))


def test_the_command_says_what_would_break(need, monkeypatch):
    def measured_before(network, workers, progress):
        return Need(network, need.small, need.full)

    monkeypatch.setattr("pv4fad_bench.network_command.bench_network", measured_before)
    few = CliRunner().invoke(app, ["network", "--institutions", "5", "--accounts", "10000"])
    many = CliRunner().invoke(app, ["network", "--institutions", "5", "--accounts", "9000000"])
    assert few.exit_code == many.exit_code == 0, many.output
    assert "breaks" not in few.output
    assert "breaks" in many.output
