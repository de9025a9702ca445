"""Keys are costly: one pair per ring serves all tests of this folder."""

import pytest

from pv4fad.he.keys import generate_keys
from pv4fad.he.ring import TAG_RING, match_ring, share_ring

T = 65537


@pytest.fixture(scope="session")
def match_keys():
    return generate_keys(match_ring(T), "test", relinearisation=True)


@pytest.fixture(scope="session")
def share_keys():
    return generate_keys(share_ring(T), "test", relinearisation=False)


@pytest.fixture(scope="session")
def tag_keys():
    return generate_keys(TAG_RING, "test", relinearisation=True)
