"""`pv4fad keys rotate`: new keys for all parties of a run."""

from __future__ import annotations

import typer

from pv4fad.cli.federation_key import KeyFile
from pv4fad.cli.match import Accounts, AsJson, Run, Scenario, Workers, rematch

app = typer.Typer(help="The encryption keys of a run.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The encryption keys of a run."""


@app.command()
def rotate(
    run: Run,
    folder: Accounts,
    *,
    workers: Workers = None,
    scenario: Scenario = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Give the payment network and every bank new encryption keys; the old ones are deleted.

    That takes a new match of all accounts: the join is kept as shares, one half of it encrypted
    under the keys of the banks, and what was encrypted under an old key cannot be used with a new
    one. Predictions stay the same. The banks' account files must be those of the last match; if
    they have changed, use match refresh, which also renews the keys.
    """
    rematch(
        run, folder, scenario, key_file, workers=workers, as_json=as_json, records_may_differ=False
    )
