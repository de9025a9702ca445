"""The arithmetic for large networks: equal to what was measured, and to the bounds of a run."""

import json
from dataclasses import replace
from math import log2

import pytest
from typer.testing import CliRunner

from pv4fad.deployment.exchange import Request, from_bytes, to_bytes
from pv4fad.errors import WireError
from pv4fad.hashing.placement_bound import log2_failure_bound
from pv4fad.hashing.table_size import LOG2_FAILURE
from pv4fad.he.polynomial import n_powers
from pv4fad.protocol.identity import identity_in
from pv4fad.protocol.match.messages import EncryptedTable
from pv4fad.protocol.propose.messages import BankKeys, Roster
from pv4fad.protocol.tables import padded
from pv4fad.protocol.wire import Address, encode
from pv4fad.store.store import MemoryStore
from pv4fad_bench import network_size
from pv4fad_bench.app import app
from pv4fad_bench.network_limits import Limit, holds_up_to, limits
from pv4fad_bench.network_size import Measured, Need, Network, Table, bench_network, n_powers_of
from pv4fad_bench.network_units import OFFER, party_names

NETWORK = Network(40, 50_000, 2.0, 30_000, 10)


class Silent:
    def begin(self, expected_s: float, n_steps: int) -> None:
        assert n_steps == 5

    def advance(self) -> None:
        pass


@pytest.fixture(scope="module")
def need() -> Need:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(network_size, "_SMALL", 1000)
        patched.setattr(network_size, "_FULL", 12_000)
        patched.setattr(network_size, "_PAYMENTS", 3_000)
        patched.setattr(network_size, "_HUB_SIZES", (1, 60))
        return bench_network(NETWORK, 0, Silent())


def own_table(measured: Measured) -> Table:
    (plan,) = measured.parameters.tables
    return Table(plan.layout, *measured.parameters.banks.values(), 1)


def test_a_network_of_the_measured_bank_needs_what_was_measured(need):
    for measured in (need.units.small, need.units.full):
        table, job = own_table(measured), measured.job
        assert need.train_cpu_s(table) == pytest.approx(job.train_cpu_s)
        assert need.score_cpu_s(table) == pytest.approx(job.score_cpu_s)
        sent = need.train_bytes(table) + need.score_bytes(table)
        assert sent == pytest.approx(sum(one.n_bytes for one in job.traffic))
        assert need.match_cpu_s(table) == pytest.approx(job.phases["match"].cpu_s)
        (keys,) = (one for one in job.traffic if one.kind == BankKeys.kind)
        assert need.match_bytes(table) < need.train_bytes(table) - keys.n_bytes
        assert all(job.checks.values())


def test_bytes_of_a_table_with_another_load_are_those_of_its_own_powers(need):
    """The bank's accounts alone change how many ciphertexts a bank is sent."""
    for measured in (need.units.small, need.units.full):
        table, workload = own_table(measured), measured.workload
        (plan,) = measured.parameters.tables
        for times in (4, 16):
            banks = dict.fromkeys(measured.parameters.banks, times * table.bank_accounts)
            other = measured.parameters.model_copy(update={"banks": banks})
            assert n_powers_of(table.layout, times * table.bank_accounts) == n_powers(
                other.largest_load(plan), other.strips(plan).n
            )
        (table_bytes,) = (
            one.n_bytes for one in measured.job.traffic if one.kind == EncryptedTable.kind
        )
        n_powers_now = n_powers_of(table.layout, padded(workload.bank_accounts))
        more = need.train_bytes(replace(table, bank_accounts=16 * table.bank_accounts))
        added = n_powers_of(table.layout, 16 * table.bank_accounts) - n_powers_now
        assert added > 0
        assert more - need.train_bytes(table) == pytest.approx(table_bytes / n_powers_now * added)


def test_few_new_accounts_cost_what_their_bank_asks_for(need):
    """Every institution has a small table, whose blocks follow from the bank's accounts."""
    assert [table.number for table in need.further_tables] == [
        table.number for table in need.tables
    ]
    assert {table.layout.n_accounts_declared for table in need.further_tables} == {1024}
    cpu = [need.match_cpu_s(table) for table in need.further_tables]
    assert cpu == sorted(cpu)
    assert 0 < need.total_further(need.match_cpu_s) < need.total(need.match_cpu_s)


def test_every_institution_has_a_table(need):
    assert sum(table.number for table in need.tables) == 40
    sizes = need.network.sizes
    assert sizes[0] == pytest.approx(4 * sizes[3], rel=0.01)
    assert abs(int(sizes.sum()) - 50_000) < 40


def bounds_of(need: Need) -> dict[str, Limit]:
    return {limit.what: limit for limit in limits(need)}


def test_bounds_are_those_of_a_run(need, monkeypatch):
    """Of the one bank that was measured, as its parameters have them."""
    full = need.units.full
    monkeypatch.setitem(need.__dict__, "tables", (own_table(full),))
    accounts, false_match, distance = limits(need)[:3]
    assert accounts.here == full.parameters.tables[0].layout.n_accounts_declared
    assert false_match.here == pytest.approx(full.parameters.log2_false_match)
    in_match = {k: n for k, n in full.parameters.n_sanitised.items() if k != "linear"}
    bounds = full.parameters.bounds
    exact = log2(sum(n * 2.0 ** -bounds[name].distance_bits for name, n in in_match.items()))
    assert distance.here == pytest.approx(exact)
    assert all(one.holds for one in (accounts, false_match, distance))


def test_messages_above_their_bounds_are_refused(need):
    large = Need(replace(NETWORK, institutions=9_000), need.units)
    roster, header = holds_up_to(large)[3:5]
    identity = identity_in(MemoryStore("bank00001")).public().to_bytes()
    with pytest.raises(WireError, match="at most"):
        encode(Roster(Address("payment-network", "bank00001", "run"), (identity,) * (roster + 1)))

    def through_the_hub(n: int) -> None:
        request = Request("0" * 16, offers=dict.fromkeys(party_names(n), OFFER))
        from_bytes(to_bytes(request), Request)

    through_the_hub(header)
    with pytest.raises(WireError, match="too long"):
        through_the_hub(header + 1)


def test_a_limit_holds_up_to_the_number_it_names(need):
    large = Need(replace(NETWORK, institutions=4_000, accounts=9_000_000), need.units)
    found = dict(zip((one.what for one in limits(large)), holds_up_to(large), strict=True))
    broken = [what for what, limit in bounds_of(large).items() if not limit.holds]
    assert len(broken) >= 3
    for what, limit in bounds_of(large).items():
        if limit.holds:
            assert found[what] == 4_000
            continue
        for n, holds in ((found[what], True), (found[what] + 1, False)):
            smaller = Need(large.network.with_institutions(n), need.units)
            assert bounds_of(smaller)[what].holds is holds


def test_large_tables_have_room_for_their_accounts(need):
    """They are not planned exactly; the bound that a run has allows them."""
    size = network_size._PLANNED_UP_TO + 1
    n_bins = round(network_size._BINS_PER_ACCOUNT * size)
    assert log2_failure_bound(size, n_bins) < LOG2_FAILURE - log2(11_000)
    large = Need(replace(NETWORK, accounts=9_000_000), need.units)
    for table in large.tables:
        bins, accounts = table.layout.n_bins_used, table.layout.n_accounts_declared
        assert bins >= network_size._BINS_PER_ACCOUNT * accounts or accounts < size


def test_needs_grow_with_payments_and_institutions(need):
    twice = Need(replace(NETWORK, payments=2 * NETWORK.payments), need.units)
    for name in ("prepare_cpu_s", "prepare_bytes", "judge_cores", "known_bytes", "journal_bytes"):
        assert getattr(twice, name) == pytest.approx(2 * getattr(need, name))
        assert getattr(need, name) > 0
    assert 300 < need.units.payment.known_bytes < 600
    own = Need(NETWORK, need.units)
    own.__dict__["tables"] = (own_table(need.units.full),)
    parameters = need.units.full.parameters
    (plan,) = parameters.tables
    blocks = plan.layout.n_blocks * parameters.share_blocks_per_block(plan)
    assert own.live_share_bytes == blocks * need.units.live.block_bytes
    assert need.query_cores == 40 * need.units.live.query_cpu_s > 0


def test_the_command_says_what_would_break(need, monkeypatch, tmp_path):
    def measured_before(network, workers, progress):
        return Need(network, need.units)

    monkeypatch.setattr("pv4fad_bench.network_command.bench_network", measured_before)
    file, size = tmp_path / "network.json", ["network", "--institutions", "5", "--payments", "1000"]
    for accounts, n_broken in ((10_000, 0), (4_000_000, 1)):
        written = ["--accounts", str(accounts), "--json", str(file)]
        found = CliRunner().invoke(app, [*size, *written])
        assert found.exit_code == 0, found.output
        document = json.loads(file.read_text())
        broken = [one for one in document["limits"] if one["here"] > one["allowed"]]
        assert len(broken) == n_broken
        assert found.output.count("all │") == len(document["limits"]) - n_broken
        assert sum(table["number"] for table in document["tables"]) == 5
