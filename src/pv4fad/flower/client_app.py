"""The ClientApp: carries a request to the station of its node, and the reply back.

Which party a node belongs to is in the node's configuration (`station`: where its station is).
The app sees frames and opens none; it holds no key, no data and no state.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pv4fad.flower.records import from_record, to_record
from pv4fad.flower.station_socket import call

app = ClientApp()


@app.query()
def carry(message: Message, context: Context) -> Message:
    """One exchange between the relay and the station."""
    station = Path(str(context.node_config["station"]))
    frames = call(station, from_record(message.content))
    return Message(to_record(frames), reply_to=message)
