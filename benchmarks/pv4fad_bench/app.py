"""All commands of `pv4fad bench`."""

from __future__ import annotations

from pv4fad_bench import (
    classes_command,
    deployed,
    dp_forest,
    iso20022_command,
    journey_command,
    live,
    network_command,
    soak,
    table_command,
    utility_command,
)
from pv4fad_bench.commands import app

app.command("table")(table_command.table)
app.command("scaling")(table_command.scaling)
app.command("classes")(classes_command.command)
app.command("deployed")(deployed.command)
app.command("dp-forest")(dp_forest.command)
app.command("iso20022")(iso20022_command.command)
app.command("live")(live.command)
app.command("network")(network_command.command)
app.command("soak")(soak.command)
app.command("whole")(journey_command.command)
app.command("utility")(utility_command.command)

__all__ = ["app"]
