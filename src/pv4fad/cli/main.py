"""`pv4fad`: the command line, one module per group of commands, imported when it is called."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import click
import typer
from click.exceptions import NoArgsIsHelpError
from rich.markup import escape

from pv4fad import __version__
from pv4fad.cli.console import fail, out
from pv4fad.cli.lazy import Lazy, lazy_group
from pv4fad.cli.origin import origin
from pv4fad.errors import Pv4fadError, UserError

COMMANDS = {
    "demo": Lazy(
        "pv4fad.cli.demo:demo",
        "Generate data, train and score privately, compare, and write a report: two minutes.",
    ),
    "demo-federated": Lazy(
        "pv4fad.cli.federation_demo:demo_federated",
        "Train and score with the parties as separate processes, through a hub: two minutes.",
    ),
    "demo-live": Lazy(
        "pv4fad.cli.live_demo:demo_live",
        "Judge payments live with banks, hub and service, and look at the alerts: some minutes.",
    ),
    "example": Lazy(
        "pv4fad.cli.example:example",
        "Six accounts, two banks: private counts and one question that you can check by hand.",
    ),
    "generate": Lazy(
        "pv4fad.cli.generate:command",
        "Generate a payment network's and its banks' data into DIR, and check it for leaks.",
    ),
    "data": Lazy("pv4fad.cli.data:app", "Check data, and convert it."),
    "params": Lazy(
        "pv4fad.cli.params:command",
        "Print the parameters of a run of these sizes, its bounds and its message sizes.",
    ),
    "train": Lazy(
        "pv4fad.cli.train:command",
        "Train privately: this command plays all parties, each with a folder of its own in RUN.",
    ),
    "score": Lazy(
        "pv4fad.cli.score:score_command",
        "Score the test split of DIR privately: this command plays all parties.",
    ),
    "refresh": Lazy(
        "pv4fad.cli.score:refresh_command",
        "Match all accounts again, with the banks' present records and new keys for every party.",
    ),
    "verify": Lazy(
        "pv4fad.cli.score:verify_command",
        "Compute everything again in the clear and compare it with the private run.",
    ),
    "attack": Lazy(
        "pv4fad.cli.attack:attack_command",
        "Attack a finished run as each of its parties, with what that party's store holds.",
    ),
    "audit": Lazy("pv4fad.cli.audit:app", "Signed logs of messages, and what was committed to."),
    "evaluate": Lazy(
        "pv4fad.cli.evaluate:evaluate_command",
        "Compare a run's predictions with the labels of the test split of DIR.",
    ),
    "report": Lazy(
        "pv4fad.cli.evaluate:report_command",
        "Write a report on a run: what was found, what is private, who saw what, what it cost.",
    ),
    "dossier": Lazy(
        "pv4fad.cli.dossier:dossier_command",
        "Write the file for a supervisor: a page for each question, and the JSON behind them.",
    ),
    "ledger": Lazy("pv4fad.cli.ledger:app", "The privacy budget of a party with records."),
    "keys": Lazy("pv4fad.cli.keys:app", "What unlocks a store, and how to change it."),
    "party": Lazy("pv4fad.cli.party:app", "One organisation's part in a deployed federation."),
    "federation": Lazy("pv4fad.cli.federation:app", "The jobs of a deployed federation."),
    "serve": Lazy("pv4fad.cli.serve:app", "A service for programs and people."),
    "desk": Lazy("pv4fad.cli.desk:app", "The alert desk: who may use it, what was said."),
    "bench": Lazy("pv4fad_bench.app:app", "Measure speed, and how well anomalies are found."),
}

app = typer.Typer(
    name="pv4fad",
    cls=lazy_group(COMMANDS),
    help="A payment network and its banks detect anomalous payments together, privately.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"pv4fad {__version__}, {origin()}", soft_wrap=True)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print version, commit and build.",
        ),
    ] = False,
) -> None:
    """Options that stand before any command."""


def main() -> None:
    """Run the command line; a mistake ends in one line and exit code 2, never in a traceback."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # typer makes a code of an interrupt, and returns it
            raise KeyboardInterrupt
    except UserError as error:
        fail(escape(str(error)), 2)
    except Pv4fadError as error:
        fail(escape(str(error)), 1)
    except NoArgsIsHelpError:
        sys.exit(2)  # the help has been printed
    except click.UsageError as error:
        see = f" See: {error.ctx.command_path} --help" if error.ctx else ""
        fail(escape(error.format_message() + see), 2)
    except click.ClickException as error:
        fail(escape(error.format_message()), 2)
    except (click.Abort, KeyboardInterrupt):
        fail("interrupted", 130)
    except OSError as error:
        fail(escape(_error_text(error)), 2)


def _error_text(error: OSError) -> str:
    """Where and what, and what to do about a full disk."""
    where = f"{error.filename}: " if error.filename else ""
    full = error.errno == errno.ENOSPC or "No space left" in str(error)
    return f"{where}{error.strerror or error}" + "; make room and try again" * full
