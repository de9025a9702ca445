"""`pv4fad bench network`: what a network of a given size would need."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table as Printed

from pv4fad.cli.console import fail, out, progress_bar
from pv4fad.cli.options import Workers
from pv4fad.report.texts import size_text
from pv4fad_bench.commands import WRONG, Bar
from pv4fad_bench.network_size import Need, Network, Table, bench_network

_HOUR_S, _NIGHT_HOURS = 3600, 8


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
    workers: Workers = None,
) -> None:
    """Arithmetic for a large network: cores and bytes, from two jobs measured here.

    Also which bounds of a single run it would break.
    """
    with progress_bar() as bars:
        need = bench_network(Network(institutions, accounts, bank_share), workers, Bar(bars))
    _print(need)
    if not all(all(one.job.checks.values()) for one in (need.small, need.full)):
        fail(WRONG, 1)


def _print(need: Need) -> None:
    network, tables = need.network, need.tables
    out.print(
        f"{network.institutions:,} institutions, {network.accounts:,} accounts,"
        f" {network.bank_share:g} times as many at the institutions",
        soft_wrap=True,
    )
    costs = Printed("", title="Both parties' work, from unit costs of this machine")
    for heading in ("accounts", "train CPU s", "bytes", "score CPU s", "bytes"):
        costs.add_column(heading, justify="right")
    by_rank = [table for table in reversed(tables) for _ in range(table.number)]
    for name, table in (
        ("largest institution", by_rank[0]),
        ("median", by_rank[len(by_rank) // 2]),
    ):
        costs.add_row(name, f"{table.layout.n_accounts_declared:,}", *_cells(need, [(table, 1)]))
    costs.add_section()
    every = [(table, table.number) for table in tables]
    declared = sum(table.layout.n_accounts_declared * n for table, n in every)
    costs.add_row("all", f"{declared:,}", *_cells(need, every))
    out.print(costs)
    cpu_s = sum(n * need.train_cpu_s(table) for table, n in every)
    cores = cpu_s / (_NIGHT_HOURS * _HOUR_S)
    out.print(
        f"all tables within {_NIGHT_HOURS} hours: {cores:,.1f} cores"
        f" ({cpu_s / _HOUR_S:,.0f} core hours), all parties together",
        soft_wrap=True,
    )
    bounds = Printed("bound of a single run", title="Where it would break")
    for heading in ("allowed", "here", ""):
        bounds.add_column(heading, justify="right")
    for limit in need.limits():
        mark = "[green]holds[/]" if limit.holds else "[bold red]breaks[/]"
        bounds.add_row(limit.what, limit.allowed, limit.would_be, mark)
    out.print(bounds)


def _cells(need: Need, tables: list[tuple[Table, int]]) -> list[str]:
    return [
        f"{sum(n * need.train_cpu_s(table) for table, n in tables):,.1f}",
        size_text(round(sum(n * need.train_bytes(table) for table, n in tables))),
        f"{sum(n * need.score_cpu_s(table) for table, n in tables):,.2f}",
        size_text(round(sum(n * need.score_bytes(table) for table, n in tables))),
    ]
