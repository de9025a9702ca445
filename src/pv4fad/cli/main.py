"""`pv4fad`: the command line, one module per group of commands."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import click
import typer
from click.exceptions import NoArgsIsHelpError
from rich.markup import escape

from pv4fad import __version__
from pv4fad.cli import (
    bench,
    data,
    demo,
    evaluate,
    example,
    federation,
    federation_demo,
    generate,
    ledger,
    params,
    party,
    refresh,
    report,
    score,
    train,
    verify,
)
from pv4fad.cli.console import fail, out
from pv4fad.errors import Pv4fadError, UserError

app = typer.Typer(
    name="pv4fad",
    help="A payment network and its banks detect anomalous payments together, privately.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench.add_to(app)
app.add_typer(data.app)
app.add_typer(ledger.app, name="ledger")
app.add_typer(party.app, name="party")
app.add_typer(federation.app, name="federation")
app.command()(demo.demo)
app.command()(federation_demo.demo_federated)
app.command()(example.example)
app.command("generate")(generate.command)
app.command("params")(params.command)
app.command("train")(train.command)
app.command("score")(score.command)
app.command("refresh")(refresh.command)
app.command("verify")(verify.command)
app.command("evaluate")(evaluate.command)
app.command("report")(report.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"pv4fad {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
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
