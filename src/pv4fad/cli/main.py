"""`pv4fad`: the command line, one module per group of commands."""

from __future__ import annotations

import errno
import sys
from importlib.util import find_spec
from typing import Annotated

import click
import typer
from click.exceptions import NoArgsIsHelpError
from rich.markup import escape

from pv4fad import __version__
from pv4fad.cli import (
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
    score,
    train,
)
from pv4fad.cli.console import fail, out
from pv4fad.errors import ParameterError, Pv4fadError, UserError


def add_bench(app: typer.Typer) -> None:
    """`pv4fad bench`: the commands of `pv4fad_bench`, or one that says where they are.

    Benchmarks are in the source tree (benchmarks/), not in the installed package.
    """
    if find_spec("pv4fad_bench") is None:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        about = "Measure speed and detection (needs the source tree)."
        app.command("bench", help=about, context_settings=settings)(_bench_not_installed)
        return
    from pv4fad_bench.app import app as benchmarks  # noqa: PLC0415

    app.add_typer(benchmarks, name="bench")


def _bench_not_installed() -> None:
    raise ParameterError(
        "pv4fad bench is not part of the installed package: clone the repository, and run"
        " `make env` there"
    )


app = typer.Typer(
    name="pv4fad",
    help="A payment network and its banks detect anomalous payments together, privately.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_bench(app)
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
app.command("score")(score.score_command)
app.command("refresh")(score.refresh_command)
app.command("verify")(score.verify_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("report")(evaluate.report_command)


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
