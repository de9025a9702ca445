"""`pv4fad ledger`: what a bank has spent of its privacy budget, and the limit it has set."""

from __future__ import annotations

from datetime import UTC, date, datetime
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from pv4fad.audit.catch_up import require_caught_up
from pv4fad.cli.console import out, print_json
from pv4fad.cli.options import AsJson, StoreKey, store_key
from pv4fad.errors import StoreError
from pv4fad.privacy.delta import KINDS, delta_text, parse_delta
from pv4fad.privacy.effective import WARN_ABOVE, guessing_bound, is_weak
from pv4fad.privacy.epsilon import Epsilon, epsilon_text, parse_epsilon, upper_text
from pv4fad.privacy.ledger import Expense, Ledger, read_ledger, set_delta_limit, set_limit
from pv4fad.protocol.roles import BANK, role_of
from pv4fad.store.disk import DiskStore
from pv4fad.store.file import party_of

# A ledger is of all runs, whatever their data, so these sentences have no words of a schema.
CLAIM = (
    "ε bounds what training reveals about one record of this party, over all runs together."
    " Scoring is outside the ε claim: who asks about a record also learns whether it is, at"
    " present, in the set asked for (or, by votes, a vote total)."
)
DELTA = (
    "ε holds up to δ: how far sanitised ciphertexts are from uniform, and how likely a record is"
    " taken for another. Every match and every answered scoring adds to it."
)
HOLDS_IF = (
    "An ε holds if at least H of the parties that keep records, this one included, add their noise"
    " and keep it secret; H = 1 is the case that no other one does. Guess: the largest probability"
    " of guessing correctly whether a record is present, or which of two classes it has, if both"
    " were equally likely before."
)
WEAK = f"Warning: a run that claims an ε above {WARN_ABOVE}, or none, protects a record little."

app = typer.Typer(help="The privacy budget of a party with records.", no_args_is_help=True)

Folder = Annotated[
    Path,
    typer.Argument(help="The folder of a party with records, such as a bank.", show_default=False),
]


@app.command()
def show(
    folder: Folder,
    key: StoreKey = None,
    as_json: AsJson = False,
) -> None:
    """Print every run on which a bank has spent ε, its limit and what is left."""
    with _open(folder, key) as store:
        party, ledger = store.party, read_ledger(store)
    if as_json:
        print_json(_summary(party, ledger))
    else:
        _print(party, ledger)


@app.command("set-limit")
def set_limit_command(
    folder: Folder,
    epsilon: Annotated[str, typer.Argument(help="In total, e.g. 3 or 0.5; none = no limit.")],
    key: StoreKey = None,
) -> None:
    """Set how much ε a bank allows in total, over all runs and versions of its account file."""
    limit = parse_epsilon(epsilon)
    with _open(folder, key) as store:
        require_caught_up(store)
        with store.transaction() as tx:
            set_limit(tx, limit, datetime.now(UTC))
        party, ledger = store.party, read_ledger(store)
    out.print(escape(f"{party}: limit {_amount(ledger.limit)}, left {_amount(ledger.left)}"))


@app.command("set-delta-limit")
def set_delta_limit_command(
    folder: Folder,
    delta: Annotated[str, typer.Argument(help="In any 365 days, e.g. 2^-10 or 1e-6.")],
    key: StoreKey = None,
) -> None:
    """Set how much δ a bank allows in a year, over all runs (2^-10 if it is never set)."""
    limit = parse_delta(delta)
    with _open(folder, key) as store:
        require_caught_up(store)
        with store.transaction() as tx:
            set_delta_limit(tx, limit, datetime.now(UTC))
        party, ledger = store.party, read_ledger(store)
    out.print(escape(f"{party}: {_delta_line(ledger)}"))


def _open(folder: Path, key: str | None) -> DiskStore:
    party = party_of(folder)
    if role_of(party) != BANK:
        raise StoreError(f"{folder} is the store of the {party}, which keeps no ledger")
    return DiskStore.open(folder, store_key(folder, key))


def _amount(epsilon: Epsilon | None) -> str:
    return "not set" if epsilon is None else epsilon_text(epsilon)


def _summary(party: str, ledger: Ledger) -> dict[str, Any]:
    return {
        "party": party,
        "limit": None if ledger.limit is None else epsilon_text(ledger.limit),
        "spent": epsilon_text(ledger.spent),
        "left": epsilon_text(ledger.left),
        "delta": {
            "year": delta_text(ledger.delta.of_year(_today())),
            "limit": delta_text(ledger.delta.limit),
            **{kind: delta_text(ledger.delta.of_kind(kind, _today())) for kind in KINDS},
            "in_total": delta_text(ledger.delta.total),
        },
        "claim": CLAIM,
        "expenses": [
            {
                "run_id": expense.run_id,
                "epsilon": epsilon_text(expense.epsilon),
                "sensitivity": expense.sensitivity,
                "unit": expense.unit,
                "noise": expense.noise,
                "honest_banks": expense.honest_banks,
                "epsilon_alone": "none" if alone == inf else alone,
                "guessing_bound": guessing_bound(expense.epsilon),
                "guessing_bound_alone": guessing_bound(alone),
                "account_file": expense.account_file,
                "time": expense.time.isoformat(),
            }
            for expense in ledger.expenses
            for alone in (expense.epsilon_alone,)
        ],
    }


def _print(party: str, ledger: Ledger) -> None:
    table = Table(title=escape(f"Ledger of {party}"))
    for heading in ("time", "run", "Δ", "noise", "H", "ε", "guess", "records"):
        table.add_column(heading, overflow="fold")
    for expense in ledger.expenses:
        table.add_row(
            expense.time.isoformat(sep=" ", timespec="seconds"),
            escape(expense.run_id),
            str(expense.sensitivity),
            escape(expense.noise),
            *_if_honest(expense),
            escape(expense.account_file[:12]),
            style="bold red" if expense.epsilon == "none" else "",
        )
    out.print(table)
    spent, limit, left = map(_amount, (ledger.spent, ledger.limit, ledger.left))
    out.print(f"spent [bold]{spent}[/], limit [bold]{limit}[/], left [bold]{left}[/]")
    out.print(escape(_delta_line(ledger)))
    for unit in dict.fromkeys(expense.unit for expense in ledger.expenses):
        out.print(f"unit of privacy: {escape(unit)}")
    if ledger.expenses:
        out.print(HOLDS_IF)
    if any(is_weak(expense.epsilon) for expense in ledger.expenses):
        out.print(f"[bold red]{WEAK}[/]")
    out.print(CLAIM)
    out.print(DELTA)


def _delta_line(ledger: Ledger) -> str:
    account, today = ledger.delta, _today()
    amounts = {kind: account.of_kind(kind, today) for kind in KINDS}
    parts = ", ".join(
        f"{kind} {delta_text(amount)}"
        for kind, amount in amounts.items()
        if amount or kind in ("match", "scoring")
    )
    return (
        f"δ of the last 365 days {delta_text(account.of_year(today))} ({parts}),"
        f" limit {delta_text(account.limit)}"
    )


def _today() -> date:
    return datetime.now(UTC).date()


def _if_honest(expense: Expense) -> tuple[str, str, str]:
    """H, ε and the guess as claimed, and below if no other bank adds noise."""
    claimed, alone = expense.epsilon, expense.epsilon_alone
    cases = [(str(expense.honest_banks), epsilon_text(claimed), _percent(guessing_bound(claimed)))]
    if expense.honest_banks > 1:
        cases.append(("1", upper_text(alone, 2), _percent(guessing_bound(alone))))
    honest, epsilon, guess = ("\n".join(column) for column in zip(*cases, strict=True))
    return honest, epsilon, guess


def _percent(probability: float) -> str:
    return f"{upper_text(100 * probability, 1)} %"
