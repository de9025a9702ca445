"""`pv4fad bench network`: what a network of a given size would need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table as Printed

from pv4fad import __version__
from pv4fad.cli.console import fail, out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.files import require_writable, write_whole
from pv4fad.report.texts import size_text
from pv4fad_bench.commands import WRONG, Bar, JsonFile
from pv4fad_bench.harness import this_machine
from pv4fad_bench.network_limits import NIGHT_S, Limit, Unit, holds_up_to, limits
from pv4fad_bench.network_size import Need, Network, Table, bench_network

_TEXT: dict[Unit, Callable[[float], str]] = {
    "": lambda value: f"{value:,.0f}",
    "log2": lambda value: f"2^{value:.1f}",
    "bytes": lambda value: size_text(round(value)),
    "hours": lambda value: f"{value:,.1f} h",
}


def command(
    *,
    institutions: Annotated[
        int, typer.Option("--institutions", min=2, help="That hold accounts.")
    ] = 11_000,
    accounts: Annotated[
        int,
        typer.Option("--accounts", min=1000, help="Of all of them that the payments meet."),
    ] = 100_000_000,
    bank_share: Annotated[
        float,
        typer.Option(
            "--bank-share", min=1, help="Accounts of an institution for each that payments meet."
        ),
    ] = 4.0,
    payments: Annotated[int, typer.Option("--payments", min=1, help="A day.")] = 50_000_000,
    days: Annotated[
        int,
        typer.Option("--days", min=1, help="Of payments to train on, and to remember live."),
    ] = 30,
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """Arithmetic for a large network: cores, bytes and memory, from unit costs measured here.

    Also what would break first.
    """
    require_writable(json_file)
    network = Network(institutions, accounts, bank_share, payments, days)
    with progress_bar() as bars:
        need = bench_network(network, workers, Bar(bars))
    found = list(zip(limits(need), holds_up_to(need), strict=True))
    if json_file is not None:
        write_whole(json_file, json.dumps(_document(need, found), indent=2) + "\n")
    _print(need, found)
    if not need.units.checks:
        fail(WRONG, 1)


def _print(need: Need, found: list[tuple[Limit, int]]) -> None:
    network = need.network
    out.print(
        f"{network.institutions:,} institutions, {network.accounts:,} accounts,"
        f" {network.bank_share:g} times as many at the institutions;"
        f" {network.payments:,} payments a day, {network.days} days of them known",
        soft_wrap=True,
    )
    out.print(_units(need))
    out.print(_tables(need))
    out.print(_needs(need))
    bounds = Printed("bound", title="Where it would break, and at how many institutions")
    for heading in ("allowed", "here", "holds up to"):
        bounds.add_column(heading, justify="right")
    for limit, most in sorted(found, key=lambda one: (one[0].holds, one[1])):
        text = _TEXT[limit.unit]
        mark = "[green]all[/]" if limit.holds else f"[bold red]{most:,}[/]"
        bounds.add_row(limit.what, text(limit.allowed), text(limit.here), mark)
    out.print(bounds)


def _units(need: Need) -> Printed:
    payment, live = need.units.payment, need.units.live
    printed = Printed("", "ms of a core", "bytes", title="Unit costs, measured here")
    for name, seconds, n_bytes in (
        ("payment: features, in training", payment.features_cpu_s, payment.training_bytes),
        ("payment: local model, in training", payment.model_cpu_s, None),
        ("payment: known and judged live", payment.judge_cpu_s, payment.known_bytes),
        ("payment: journal of decisions", None, payment.journal_bytes),
        ("live query: payment network", live.query_cpu_s, live.n_bytes),
        ("live query: institution", live.reply_cpu_s, None),
        ("megabyte at the hub, as many parties", _hub_cpu_s(need), None),
    ):
        printed.add_row(
            name,
            "" if seconds is None else f"{1000 * seconds:.3f}",
            "" if n_bytes is None else f"{n_bytes:,}",
        )
    return printed


def _tables(need: Need) -> Printed:
    costs = Printed("", title="Work of both parties")
    for heading in ("accounts", "match, count CPU s", "bytes", "score CPU s", "bytes"):
        costs.add_column(heading, justify="right")
    training, score = (need.train_cpu_s, need.train_bytes), (need.score_cpu_s, need.score_bytes)
    for which, tables, works in (
        ("", need.tables, (training, score)),
        (", new accounts", need.further_tables, ((need.match_cpu_s, need.match_bytes),)),
    ):
        by_rank = [table for table in reversed(tables) for _ in range(table.number)]
        for name, table in (
            ("largest institution", by_rank[0]),
            ("median", by_rank[len(by_rank) // 2]),
        ):
            costs.add_row(name + which, *_cells([(table, 1)], works))
        every = [(table, table.number) for table in tables]
        costs.add_row("all" + which, *_cells(every, works), end_section=True)
    return costs


def _cells(
    tables: list[tuple[Table, int]], works: Iterable[tuple[Callable[[Table], float], ...]]
) -> list[str]:
    """Accounts that are declared; CPU seconds and bytes of each work."""
    cells = [f"{sum(table.layout.n_accounts_declared * n for table, n in tables):,}"]
    for cpu_s, n_bytes in works:
        cells.append(f"{sum(n * cpu_s(table) for table, n in tables):,.2f}")
        cells.append(size_text(round(sum(n * n_bytes(table) for table, n in tables))))
    return cells


def _needs(need: Need) -> Printed:
    days, hours = need.network.days, NIGHT_S // 3600
    printed = Printed("", "cores", "bytes", "of which", title="What it needs")
    printed.columns[1].justify = printed.columns[2].justify = "right"
    for name, cores, n_bytes, kind in _rows(need):
        printed.add_row(name.format(days=days, hours=hours), *_need_cells(cores, n_bytes), kind)
    return printed


def _need_cells(cores: float | None, n_bytes: float) -> tuple[str, str]:
    return "" if cores is None else f"{cores:,.2f}", size_text(round(n_bytes))


def _rows(need: Need) -> tuple[tuple[str, float | None, float, str], ...]:
    """What is done, cores, bytes, and what the bytes are."""
    network, payment = need.network, need.units.payment
    scored_s = network.payments * (payment.features_cpu_s + payment.judge_cpu_s)
    return (
        ("prepare {days} days, in {hours} h", need.prepare_cpu_s / NIGHT_S, need.prepare_bytes,
         "memory"),
        ("match and count, in {hours} h", need.total(need.train_cpu_s) / NIGHT_S,
         need.total(need.train_bytes), "sent"),
        ("tables and keys of all, to all", None, need.public_bytes * network.institutions, "sent"),
        ("match new accounts, each day, in {hours} h",
         need.total_further(need.match_cpu_s) / NIGHT_S, need.total_further(need.match_bytes),
         "sent"),
        ("score a day in a batch, in {hours} h",
         (scored_s + need.total(need.score_cpu_s)) / NIGHT_S, need.total(need.score_bytes), "sent"),
        ("live: judge payments", need.judge_cores, need.known_bytes, "memory"),
        ("live: accounts that can be asked about", None, need.live_share_bytes, "memory"),
        ("live: journal", None, need.journal_bytes, "disk, a day"),
        ("live: a query to each, every second", need.query_cores, need.query_bytes,
         "sent, a second"),
    )  # fmt: skip


def _hub_cpu_s(need: Need) -> float:
    return need.units.fragment_cpu_s(need.network.institutions)


def _document(need: Need, found: list[tuple[Limit, int]]) -> dict[str, Any]:
    units = need.units
    return {
        "pv4fad": __version__,
        "benchmark": "network",
        "machine": this_machine(),
        "network": asdict(need.network),
        "units": {
            "payment": asdict(units.payment),
            "live": asdict(units.live),
            "hub_fragment_cpu_s": _hub_cpu_s(need),
            "identity_bytes": units.identity_bytes,
        },
        "tables": [
            {
                "accounts": table.layout.n_accounts_declared,
                "bank_accounts": table.bank_accounts,
                "number": table.number,
                "blocks": table.layout.n_blocks,
                "train_cpu_s": need.train_cpu_s(table),
                "train_bytes": need.train_bytes(table),
                "score_cpu_s": need.score_cpu_s(table),
                "score_bytes": need.score_bytes(table),
            }
            for table in need.tables
        ],
        "needs": [
            {"what": name.format(days=need.network.days, hours=NIGHT_S // 3600), "cores": cores,
             "bytes": n_bytes, "of": kind}
            for name, cores, n_bytes, kind in _rows(need)
        ],
        "limits": [asdict(limit) | {"holds_up_to": most} for limit, most in found],
    }  # fmt: skip
