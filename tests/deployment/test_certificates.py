"""Certificates name the host of the hub, and fit their own key only."""

from __future__ import annotations

import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from pv4fad.deployment.certificates import (
    certificate_valid_until,
    new_node_key,
    new_request,
    require_key_fits,
    sign_with_new_authority,
)
from pv4fad.errors import DataError


def signed(folder, host):
    folder.mkdir()
    key, request = folder / "hub.key", folder / "hub.csr"
    new_request(key, request, host)
    sign_with_new_authority(request, folder / "hub.crt", folder / "ca.crt")
    return folder


@pytest.mark.parametrize("host", ["relay.example.org", "10.0.0.7", "127.0.0.1"])
def test_a_certificate_names_the_host_and_the_loopback_and_verifies(tmp_path, host):
    made = signed(tmp_path / "a", host)
    certificate = x509.load_pem_x509_certificate((made / "hub.crt").read_bytes())
    authority = x509.load_pem_x509_certificate((made / "ca.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {host, "127.0.0.1"}
    certificate.verify_directly_issued_by(authority)
    certificate_valid_until(made / "hub.crt")
    require_key_fits(made / "hub.crt", made / "hub.key")
    assert stat.S_IMODE((made / "hub.key").stat().st_mode) == 0o600


def test_the_key_of_another_certificate_is_noticed(tmp_path):
    one, other = signed(tmp_path / "a", "10.0.0.1"), signed(tmp_path / "b", "10.0.0.1")
    with pytest.raises(DataError, match="was not made for the key"):
        require_key_fits(one / "hub.crt", other / "hub.key")


def test_a_node_key_is_an_ec_key_in_openssh_format(tmp_path):
    public = new_node_key(tmp_path / "node")
    private = load_ssh_private_key((tmp_path / "node").read_bytes(), None)
    assert private.curve.name == "secp384r1"
    assert public.startswith("ecdsa-sha2-nistp384 ")
