"""A certificate names the host of the hub, fits its own key, and is signed by no other."""

from __future__ import annotations

import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from pv4fad.deployment.certificates import (
    HUB_NAME,
    certificate_valid_until,
    new_certificate,
    read_certificate,
    require_key_fits,
    ssh_private_key,
    ssh_public_key,
)
from pv4fad.errors import DataError, ParameterError


@pytest.mark.parametrize("host", ["relay.example.org", "10.0.0.7", "127.0.0.1"])
def test_the_certificate_of_a_hub_names_its_host_and_the_loopback(tmp_path, host):
    made = new_certificate(tmp_path / "key", host)
    names = read_certificate(made).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert {str(name.value) for name in names.value} == {HUB_NAME, host, "127.0.0.1"}
    certificate_valid_until(made)
    require_key_fits(made, tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_every_certificate_has_a_subject_of_its_own(tmp_path):
    """Otherwise a library could take one for the authority of another."""
    made = [read_certificate(new_certificate(tmp_path / name)) for name in ("a", "b")]
    assert made[0].subject != made[1].subject


def test_the_key_of_another_certificate_is_noticed(tmp_path):
    one = new_certificate(tmp_path / "a")
    new_certificate(tmp_path / "b")
    with pytest.raises(DataError, match="was not made for the key"):
        require_key_fits(one, tmp_path / "b")
    (tmp_path / "b").write_text("no key")
    with pytest.raises(DataError, match="is not a private key"):
        require_key_fits(one, tmp_path / "b")


def test_what_is_no_certificate_is_refused(tmp_path):
    made = new_certificate(tmp_path / "key")
    for text in ("", "rubbish", made.replace("A", "B", 40)):
        with pytest.raises(ParameterError, match="no valid certificate"):
            read_certificate(text)


def test_flower_gets_the_same_key_in_its_own_format(tmp_path):
    made = new_certificate(tmp_path / "key")
    private = load_ssh_private_key(ssh_private_key(tmp_path / "key"), None)
    assert private.curve.name == "secp384r1"
    assert load_ssh_public_key(ssh_public_key(made).encode()) == private.public_key()
