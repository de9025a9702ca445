"""`pv4fad bench`: measurements.  They are in the source tree (benchmarks/), not in the package."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from pv4fad.errors import ParameterError

if find_spec("pv4fad_bench") is not None:
    from pv4fad_bench.app import app
else:
    app = typer.Typer(
        help="Measure speed and detection (needs the source tree).", invoke_without_command=True
    )

    @app.callback(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def not_installed() -> None:
        """Measure speed and detection (needs the source tree)."""
        raise ParameterError(
            "pv4fad bench is not part of the installed package: clone the repository, and run"
            " `make env` there"
        )


__all__ = ["app"]
