"""Keys of the connections: the key pair of a node, the certificate of the hub.

A node proves its identity with an EC key (P-384, OpenSSH format), which the aggregator registers.
The hub proves its identity with a TLS certificate, which a certificate authority makes from
`hub.csr`; for a trial, an authority can be created for this federation alone.

These keys protect connections only: messages are sealed with the keys of the cards (`envelope`).
"""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import NameOID

from pv4fad.errors import DataError

_VALID_DAYS = 365
_COMMON_NAME_LENGTH = 64


def new_node_key(path: Path) -> str:
    """Write a private key for a node; returns the public key in OpenSSH format."""
    key = ec.generate_private_key(ec.SECP384R1())
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    _write_new(path, text, 0o600)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return public.decode()


def new_request(key_path: Path, request_path: Path, host: str) -> None:
    """Write a private key for the hub and a request to have its certificate signed."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_new(key_path, _pem(key), 0o600)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_name(host))
        .add_extension(_alternative_name(host), critical=False)
        .sign(key, hashes.SHA384())
    )
    _write_new(request_path, request.public_bytes(serialization.Encoding.PEM), 0o644)


def sign_with_new_authority(request_path: Path, certificate: Path, authority: Path) -> None:
    """Sign a request with a new authority, whose key is not kept."""
    request = x509.load_pem_x509_csr(request_path.read_bytes())
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("PV4FAD federation")
    now = datetime.now(UTC)
    until = now + timedelta(days=_VALID_DAYS)
    root = (
        _builder(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA384())
    )
    signed = (
        _builder(request.subject, name, request.public_key(), now, until)
        .add_extension(
            request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value,
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .sign(key, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    _write_new(certificate, signed.public_bytes(pem), 0o644)
    _write_new(authority, root.public_bytes(pem), 0o644)


def read_certificate(path: Path) -> bytes:
    """The content of a certificate file; `DataError` if it holds no certificate."""
    try:
        data = path.read_bytes()
        x509.load_pem_x509_certificate(data)
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except ValueError:
        raise DataError(f"{path} is not a certificate") from None
    return data


def certificate_valid_until(path: Path) -> datetime:
    """When a certificate expires; `DataError` if it is not valid now."""
    certificate = x509.load_pem_x509_certificate(read_certificate(path))
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise DataError(f"{path}: the certificate is not valid at this time")
    return certificate.not_valid_after_utc


def require_key_fits(certificate: Path, key: Path) -> None:
    """`DataError` if the certificate was made for another key."""
    public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    if public != private.public_key():
        raise DataError(f"{certificate}: was not made for the key in {key}")


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(minutes=5))
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_COMMON_NAME_LENGTH])])


def _alternative_name(host: str) -> x509.SubjectAlternativeName:
    # The relay reaches the hub through the loopback.
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address]
    addresses = [ipaddress.ip_address("127.0.0.1")]
    names: list[x509.GeneralName] = []
    try:
        addresses.append(ipaddress.ip_address(host))
    except ValueError:
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(address) for address in dict.fromkeys(addresses)]
    return x509.SubjectAlternativeName(names)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
