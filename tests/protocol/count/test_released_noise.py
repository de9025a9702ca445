"""The noise of the released counts themselves has the stated scale, and no other.

Real banks and real noise.  The last step of training is made again from one run: every time the
banks draw their noise anew, and what the payment network would get is compared with the truth.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from tests.kit.class_world import ONE, make_class_world
from tests.kit.recording import Recording, record
from tests.kit.views import of_kind, sent_with

import pv4fad.parties.bank
from pv4fad.protocol.count.bank import draw_noise
from pv4fad.protocol.count.messages import NoisyCounts, NoisySums
from pv4fad.protocol.count.state import OwnSums

RELEASES = 40
Z = 5.0  # a false alarm in 1.7 million looks


@pytest.fixture(scope="module")
def run() -> Recording:
    world = make_class_world(1, n_banks=2, epsilon=ONE, honest_banks=2)
    recording = Recording(world, np.zeros(0))
    record(recording)
    world.train()
    return recording


def released_noise(run: Recording) -> np.ndarray:
    """Of `RELEASES` releases, all counts: what the payment network would get, less the truth."""
    parameters, truth = run.world.parameters, run.world.true_counts().ravel()
    (event,) = run.of(NoisyCounts)
    p = run.before(event, OwnSums).p.ravel()
    t = np.uint64(parameters.plain_modulus)
    last = sent_with(run, NoisySums)
    drawn = []
    for _ in range(RELEASES):
        sums = [of_kind(one.replayed(), NoisySums).residues for one in last]
        drawn.append(parameters.signed((sum(sums) + p) % t) - truth)
    return np.concatenate(drawn)


def scale_z(noise: np.ndarray, scale: float) -> float:
    """How far the mean |noise| is from that of discrete Laplace noise of this scale, in standard
    deviations: with 2160 values, +10.5 if the true scale is 30 % larger, −15 if it is 30 % smaller.
    """
    a = exp(-1 / scale)
    mean, variance = 2 * a / (1 - a * a), 2 * a / (1 - a) ** 2
    return float((np.abs(noise).mean() - mean) / sqrt((variance - mean**2) / len(noise)))


def test_released_counts_carry_noise_of_the_stated_scale_and_no_other(run):
    noise = released_noise(run)
    assert len(noise) == RELEASES * 54
    scale = run.world.parameters.sensitivity  # ε = 1
    assert scale == 2
    assert abs(scale_z(noise, scale)) < Z
    assert scale_z(noise, 0.7 * scale) > Z
    assert scale_z(noise, 1.3 * scale) < -Z


def test_banks_that_halve_their_noise_are_noticed(run, monkeypatch):
    monkeypatch.setattr(pv4fad.parties.bank, "draw_noise", lambda p: draw_noise(p) // 2)
    assert scale_z(released_noise(run), run.world.parameters.sensitivity) < -Z
