"""Credentials, limits and names of the calls; how a party dials the hub."""

from __future__ import annotations

import os
from typing import Any

from pv4fad.deployment.certificates import HUB_NAME
from pv4fad.deployment.envelope import PART_BYTES
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder
from pv4fad.errors import DataError
from pv4fad.protocol.roles import AGGREGATOR

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise every refused client fills the log
import grpc
import grpc.aio

SERVICE = "pv4fad.Hub"
EXCHANGE, LIVE, ONLINE, START, STATUS = "Exchange", "Live", "Online", "Start", "Status"
MESSAGE_BYTES = PART_BYTES + 2**19  # a fragment and its header
_LIMITS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # Half a minute after the network went away both sides know.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
SERVER_OPTIONS = [
    *_LIMITS,
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 16),
]
CLIENT_OPTIONS = [
    *_LIMITS,
    ("grpc.ssl_target_name_override", HUB_NAME),  # whatever the hub's address is
    ("grpc.use_local_subchannel_pool", 1),  # every channel has a connection of its own
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
]


def path(call: str) -> str:
    """The name of a call as gRPC spells it."""
    return f"/{SERVICE}/{call}"


def server_credentials(folder: PartyFolder) -> grpc.ServerCredentials:
    """Let in the parties of all cards, and nobody else."""
    cards = folder.complete_cards()
    known = "".join(card.certificate for card in cards.values()).encode()
    own = (_key(folder), folder.own_card().certificate.encode())
    return grpc.ssl_server_credentials([own], known, require_client_auth=True)


def client_credentials(folder: PartyFolder) -> grpc.ChannelCredentials:
    """Connect to the hub of the aggregator's card as the party of this folder."""
    hub = folder.complete_cards()[AGGREGATOR].certificate.encode()
    return grpc.ssl_channel_credentials(hub, _key(folder), folder.own_card().certificate.encode())


def dial(folder: PartyFolder) -> grpc.Channel:
    """A connection to the hub of this folder, for threads."""
    return grpc.secure_channel(address(folder), client_credentials(folder), CLIENT_OPTIONS)


def dial_async(folder: PartyFolder) -> grpc.aio.Channel:
    """A connection to the hub of this folder, for an event loop."""
    return grpc.aio.secure_channel(address(folder), client_credentials(folder), CLIENT_OPTIONS)


def address(folder: PartyFolder) -> str:
    """Where this party finds the hub; the aggregator finds its own on its machine."""
    settings = folder.settings()
    host, port = settings.listens_at if settings.role == AGGREGATOR else settings.address
    if host in ("0.0.0.0", "::"):  # noqa: S104  listens everywhere, also there
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why(error: Any) -> str:
    """Why a call failed, in words for the party's operator."""
    if not isinstance(error, grpc.RpcError):
        return str(error)
    details = str(error.details() or "")
    if error.code() != grpc.StatusCode.UNAVAILABLE:
        return details or str(error.code())
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return (
            "the hub does not have the certificate on the aggregator's card, or it is not valid"
            " now: is the clock of this machine right?"
        )
    if "Connection refused" in details:
        return "the hub does not run, or is at another address"
    if "Cancelling all calls" in details:
        return "the hub has stopped"
    if "Socket closed" in details or "Connection reset" in details:
        return (
            "the hub ended the connection: it does not run any more, or does not know this party's"
            " certificate (the aggregator needs its card: pv4fad party join, and a restart), or one"
            " of the two clocks is wrong"
        )
    return details


def _key(folder: PartyFolder) -> bytes:
    try:
        return folder.file(KEY_FILE).read_bytes()
    except OSError as error:
        raise DataError(f"{folder.file(KEY_FILE)} cannot be read: {error.strerror}") from None
