"""The key and certificate with which a party proves who it is when it connects.

A party makes both itself; the certificate is on its card.  The hub lets in the certificates on the
cards that its operator has imported, and a party connects to a hub with the certificate on the
aggregator's card: there is no authority that could vouch for anybody else, and nothing to be sent
besides the cards whose fingerprints people compare.

These keys protect connections only: messages are sealed with other keys of the cards (`envelope`).
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pv4fad.errors import DataError, ParameterError

HUB_NAME = "hub.pv4fad"
_VALID_DAYS = 3650  # a new one is a new card, which people compare again


def new_certificate(key_path: Path, host: str = "") -> str:
    """Write a new private key; returns its certificate, as PEM.

    `host`: where the hub can be reached, for the aggregator.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    # Every certificate has a subject of its own: libraries look for trusted ones by their subject.
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashlib.sha256(public).hexdigest()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, digest)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # So that a party whose clock is a little behind can connect.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if host:
        builder = builder.add_extension(_alternative_names(host), critical=False)
    certificate = builder.sign(key, hashes.SHA384())
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _alternative_names(host: str) -> x509.SubjectAlternativeName:
    """The name that parties check, wherever they find the hub; Flower checks host or loopback."""
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address]
    addresses = [ipaddress.ip_address("127.0.0.1")]
    names: list[x509.GeneralName] = [x509.DNSName(HUB_NAME)]
    try:
        addresses.append(ipaddress.ip_address(host))
    except ValueError:
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(address) for address in dict.fromkeys(addresses)]
    return x509.SubjectAlternativeName(names)


def read_certificate(pem: str) -> x509.Certificate:
    """The certificate on a card; `ParameterError` if it is not one that its own key has signed."""
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature):
        raise ParameterError("the card has no valid certificate") from None
    return certificate


def certificate_valid_until(pem: str) -> datetime:
    """When a certificate expires; `DataError` if it is not valid now."""
    certificate = read_certificate(pem)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    now = datetime.now(UTC)
    if not begins <= now <= ends:
        raise DataError(
            f"the certificate is valid from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}, and by this"
            f" machine's clock it is {now:%Y-%m-%d %H:%M} (UTC): if that is wrong, set the clock"
        )
    return ends


def require_key_fits(pem: str, key: Path) -> None:
    """`DataError` if the certificate was made for another key."""
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        raise DataError(f"{key} is not a private key, or cannot be read") from None
    if read_certificate(pem).public_key() != private.public_key():
        raise DataError(f"the certificate on the card was not made for the key in {key}")


def ssh_public_key(pem: str) -> str:
    """The public key of a certificate in OpenSSH format, as Flower registers it."""
    key = read_certificate(pem).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ParameterError("the card has no certificate of an EC key")
    text = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return text.decode()


def ssh_private_key(key: Path) -> bytes:
    """A private key in OpenSSH format, as Flower reads it."""
    private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    return private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
