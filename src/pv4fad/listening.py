"""Listening: on loopback, or elsewhere with TLS only.

A client certificate is optional in the handshake, so that browsers need none; one that is given
must be signed by the authority of `--client-ca`, or the handshake fails.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from pv4fad.errors import ParameterError


@dataclass(frozen=True)
class Listen:
    """Where to listen, and for whom."""

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    """The authority of client certificates."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ParameterError("a certificate and its key belong together: give both")
        if self.client_ca is not None and self.certificate is None:
            raise ParameterError("--client-ca needs a certificate and its key")
        if self.certificate is None and not self.is_loopback:
            raise ParameterError(
                f"listening at {self.host} needs TLS: give a certificate and its key, or listen at"
                " 127.0.0.1"
            )
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None and not path.is_file():
                raise ParameterError(f"{path}: not found")

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"

    def context(self) -> ssl.SSLContext | None:
        """TLS 1.2 or later; None without."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (ssl.SSLError, OSError) as error:
            raise ParameterError(f"{self.certificate}: no usable certificate ({error})") from None
        return context
