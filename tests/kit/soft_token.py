"""A PKCS#11 token in software (SoftHSM), for tests; where it is absent they are skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest

PLACES = ("/usr/lib/softhsm", "/usr/lib64/pkcs11", "/usr/local/lib/softhsm")
PIN = "4321"


def library() -> Path:
    """Of SoftHSM; without it, or without python-pkcs11, the test is skipped."""
    pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed")
    for place in PLACES:
        path = Path(place) / "libsofthsm2.so"
        if path.is_file() and shutil.which("softhsm2-util"):
            return path
    return pytest.skip("SoftHSM is not installed (apt-get install softhsm2)")


def new_token(folder: Path, label: str) -> None:
    """In `folder`, whose softhsm2.conf SOFTHSM2_CONF has to name."""
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\n")
    command = [shutil.which("softhsm2-util"), "--init-token", "--free", "--label", label]
    command += ["--so-pin", "12345678", "--pin", PIN]
    environment = {"SOFTHSM2_CONF": str(folder / "softhsm2.conf")}
    subprocess.run(command, env=environment, check=True, capture_output=True)
