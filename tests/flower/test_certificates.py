"""Certificates: for the host that was asked for, with a key of its own."""

from __future__ import annotations

import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from pv4fad.errors import DataError
from pv4fad.flower.certificates import (
    certificate_valid_until,
    new_node_key,
    new_request,
    require_key_fits,
    sign_with_new_authority,
)


def signed(folder, host):
    folder.mkdir()
    key, request = folder / "superlink.key", folder / "superlink.csr"
    new_request(key, request, host)
    sign_with_new_authority(request, folder / "superlink.crt", folder / "ca.crt")
    return folder


@pytest.mark.parametrize("host", ["relay.example.org", "10.0.0.7", "127.0.0.1"])
def test_a_certificate_names_the_host_and_the_loopback_and_verifies(tmp_path, host):
    made = signed(tmp_path / "a", host)
    certificate = x509.load_pem_x509_certificate((made / "superlink.crt").read_bytes())
    authority = x509.load_pem_x509_certificate((made / "ca.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(one.value) for one in names} == {host, "127.0.0.1"}
    certificate.verify_directly_issued_by(authority)
    certificate_valid_until(made / "superlink.crt")
    require_key_fits(made / "superlink.crt", made / "superlink.key")
    assert stat.S_IMODE((made / "superlink.key").stat().st_mode) == 0o600


def test_the_key_of_another_certificate_is_noticed(tmp_path):
    one, other = signed(tmp_path / "a", "10.0.0.1"), signed(tmp_path / "b", "10.0.0.1")
    with pytest.raises(DataError, match="was not made for the key"):
        require_key_fits(one / "superlink.crt", other / "superlink.key")


def test_a_node_key_is_what_flower_reads(tmp_path):
    public = new_node_key(tmp_path / "node")
    private = load_ssh_private_key((tmp_path / "node").read_bytes(), None)
    assert private.curve.name == "secp384r1"
    assert public.startswith("ecdsa-sha2-nistp384 ")
