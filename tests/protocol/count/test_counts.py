"""Training of the default model: noisy counts equal the trusted third party's plus the noise."""

import numpy as np
import pytest
from tests.kit.class_world import MODES, ONE, make_class_world, trained_class_world
from tests.kit.world import KnownNoiseBank

from pv4fad.errors import ParameterError, ProtocolError
from pv4fad.protocol.count.messages import NoisyCounts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.protocol.wire import decode, encode
from pv4fad.schema import Schema, schema_of
from pv4fad.workers import WorkerPool

# Those with `fine` cells are the worlds of `test_questions`, trained once for both.
CASES = [
    {"n_banks": 1},
    {"n_banks": 2, "mode": "mixed"},
    {"n_banks": 3, "mode": "broadcast"},
    {"n_banks": 2, "mode": "mixed", "absent": "ordinary"},
    {"n_banks": 1, "mode": "mixed", "counted": "coarse"},
    {"n_banks": 3, "counted": "coarse", "absent": "ordinary"},
]


@pytest.mark.parametrize("options", CASES, ids=lambda one: "-".join(map(str, one.values())))
def test_counts_equal_those_of_a_trusted_third_party(options):
    world = trained_class_world(seed=5, **options)
    assert world.true_counts().any()
    assert np.array_equal(world.counts(), world.true_counts())


def schema_of_size(n_sides: int, n_classes: int) -> Schema:
    """Sides that every holder is asked about, and classes without kinds."""
    return schema_of(
        {
            "name": "any",
            "rows": {"id": "Row", "time": "Time"},
            "sides": {f"side{number}": {"id": f"Id{number}"} for number in range(n_sides)},
            "record": {"classes": [f"class {number}" for number in range(n_classes)]},
        }
    )


@pytest.mark.parametrize(
    ("n_sides", "n_classes", "absent"), [(1, 2, "ordinary"), (3, 4, "class"), (2, 32, "class")]
)
def test_any_number_of_sides_and_classes_is_counted_and_asked_about(n_sides, n_classes, absent):
    """Counts of every class, and bits about half of the classes and about absent accounts."""
    schema = schema_of_size(n_sides, n_classes)
    world = make_class_world(9, schema=schema, absent=absent, n_bare=90, n_banks=1)
    sizes = world.parameters.sizes
    assert (sizes.n_sides, sizes.n_groups) == (n_sides, 9 * n_sides)
    assert sizes.n_atoms == n_classes - (absent == "ordinary")
    world.train()
    assert world.true_counts().any()
    assert np.array_equal(world.counts(), world.true_counts())
    everybody = np.arange(len(world.keys))
    upper_half = tuple(range(sizes.n_atoms // 2, sizes.n_atoms))
    for asked in (AskedSet(upper_half, absent=False), AskedSet((), absent=True)):
        bits = world.ask(everybody, asked)
        assert np.array_equal(bits, world.true_bits(everybody, asked))
        assert 0 < bits.sum() < len(bits)


@pytest.mark.slow
@pytest.mark.parametrize("absent", ["class", "ordinary"])
@pytest.mark.parametrize("counted", ["fine", "coarse"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_banks", [1, 2, 5])
def test_every_combination_equals_the_trusted_third_party(n_banks, mode, counted, absent):
    world = make_class_world(2, n_banks=n_banks, mode=mode, counted=counted, absent=absent)
    world.train()
    assert np.array_equal(world.counts(), world.true_counts())


def test_with_noise_they_equal_his_plus_exactly_that_noise():
    """Counts below zero and above all accounts among them; two worker processes."""
    with WorkerPool(2) as pool:
        world = make_class_world(
            3, epsilon=ONE, honest_banks=2, bank_class=KnownNoiseBank, pool=pool
        )
        rng = np.random.default_rng(3)
        tail = world.parameters.noise_tail
        noise = rng.integers(-tail, tail + 1, world.parameters.sizes.n_sums)
        noise[:2] = -tail, tail
        share = rng.integers(-1000, 1001, len(noise))
        for bank, part in zip(world.federation.banks, (share, noise - share), strict=True):
            bank.chosen_noise = part
        world.train()
    expected = world.true_counts() + noise.reshape(world.true_counts().shape)
    assert (expected < 0).any()
    assert np.array_equal(world.counts(), expected)


@pytest.mark.parametrize(
    ("counted", "absent", "delta"),
    [
        ("fine", "class", 2),
        ("coarse", "class", 1),
        ("fine", "ordinary", 2),
        ("coarse", "ordinary", 1),
    ],
)
def test_one_record_moves_the_counts_by_delta_and_no_more(counted, absent, delta):
    """Every account, every change of its record: the largest change of all counts together is Δ."""
    world = make_class_world(4, n_banks=1, counted=counted, absent=absent)
    assert world.parameters.sensitivity == delta
    before, largest = world.true_counts(), 0
    for key in [key for key in world.keys if key[0] == 0]:
        kept = world.records.get(key)
        for atom in (
            None,
            *range(-1 if absent == "ordinary" else 0, world.parameters.sizes.n_atoms),
        ):
            world.records.pop(key, None)
            if atom is not None:
                world.records[key] = atom
            largest = max(largest, int(np.abs(world.true_counts() - before).sum()))
        world.records.pop(key, None)
        if kept is not None:
            world.records[key] = kept
    assert largest == delta


def test_the_modulus_holds_every_count_and_its_noise():
    """100,000 accounts fit the second smallest modulus: counts are not below zero but for noise."""
    world = make_class_world(1, n_banks=1, epsilon=ONE)
    fields = {name: getattr(world.parameters, name) for name in RunParameters.model_fields}
    (plan,) = world.parameters.tables
    layout = type(plan.layout).for_accounts(100_000, 1)
    large = RunParameters(**fields | {"tables": (plan.model_copy(update={"layout": layout}),)})
    assert large.plain_modulus == 163841
    top = large.accounts_of_one_tree + large.noise_tail
    values = np.array([-large.noise_tail, -1, 0, 1, top])
    residues = (values % large.plain_modulus).astype(np.uint64)
    assert np.array_equal(large.signed(residues), values)


def test_proposals_that_do_not_fit_the_model_are_refused():
    parameters = make_class_world(1, n_banks=1).parameters
    fields = {name: getattr(parameters, name) for name in RunParameters.model_fields}
    for change, message in (
        ({"counted": None}, "needs counted and absent"),
        ({"absent": "ordinary", "counted": "coarse"}, "sizes"),
        ({"counted": "coarse"}, "sizes"),
        ({"mode": "sealed"}, "mode counts only"),
    ):
        with pytest.raises(ParameterError, match=message):
            RunParameters(**fields | change)


def test_counts_of_the_wrong_number_or_range_change_nothing():
    world = make_class_world(1, n_banks=1)
    sent = []
    world.federation.aggregator.handle = _spy(world.federation.aggregator.handle, sent)
    network, run_id = world.federation.payment_network, world.parameters.run_id
    with pytest.raises(ProtocolError, match="values where"):
        world.train()
    honest = sent[-1]
    with pytest.raises(ProtocolError, match="a value outside"):
        network.handle(_changed(honest, np.full(54, world.parameters.plain_modulus, np.uint64)))
    t = np.uint64(world.parameters.plain_modulus)
    kept = world.counted.kept
    for place, count in ((0, int(kept[0]) + 1), (0, -1), (53, int(kept[17]) + 1)):
        wrong = honest.residues.copy()
        off = (count - int(world.true_counts().ravel()[place])) % int(t)
        wrong[place] = (wrong[place] + np.uint64(off)) % t
        with pytest.raises(ProtocolError, match="no records and no noise add up to"):
            network.handle(_changed(honest, wrong))
    network.handle(encode(honest))
    assert np.array_equal(network.counts(run_id), world.true_counts())


def _changed(message: NoisyCounts, residues: np.ndarray) -> bytes:
    return encode(NoisyCounts(message.address, residues))


def _spy(handle, sent: list[NoisyCounts]):
    def handled(data: bytes) -> list[bytes]:
        replies = []
        for reply in handle(data):
            message = decode(reply)
            if isinstance(message, NoisyCounts):
                sent.append(message)
                replies.append(_changed(message, message.residues[1:]))
            else:
                replies.append(reply)
        return replies

    return handled
