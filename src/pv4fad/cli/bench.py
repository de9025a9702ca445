"""`pv4fad bench`: measurements.  They are in the source tree (benchmarks/), not in the package."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from pv4fad.errors import ParameterError

HELP = "Measure speed and detection (needs the source tree)."


def add_to(app: typer.Typer) -> None:
    """The commands of `pv4fad_bench`, or one that says where they are."""
    if find_spec("pv4fad_bench") is None:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("bench", help=HELP, context_settings=settings)(not_installed)
        return
    from pv4fad_bench.app import app as benchmarks  # noqa: PLC0415

    app.add_typer(benchmarks, name="bench")


def not_installed() -> None:
    """Whatever was to be measured."""
    raise ParameterError(
        "pv4fad bench is not part of the installed package: clone the repository, and run"
        " `make env` there"
    )
