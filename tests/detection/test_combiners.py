import numpy as np
import pytest

from pv4fad.detection import recipe
from pv4fad.detection.calibrated import LadderSide, SideVotes, side_log_odds
from pv4fad.detection.ladder import LabelNoise
from pv4fad.detection.noisy_or import combine
from pv4fad.detection.recipe import COMBINERS, checked_combiner
from pv4fad.detection.stacked import LocalScale, Stacking, kinds, sample_rows
from pv4fad.errors import DataError, ParameterError

LADDER = LadderSide(tuple(np.geomspace(0.3, 0.001, 6)), accounts=3000.0, payments=20.0)
NOISE = LabelNoise(1.0, 1.5)


def side_votes(*odd, n_normal=20_000):
    """Normal accounts with total 0, and odd ones: (how many, total, training payments by label).

    Each account has one payment to score; that of an odd account is a first one.
    """
    numbers = [n_normal, *(n for n, _, _ in odd)]
    known = np.zeros((sum(numbers), 2, 2), np.int64)
    known[:n_normal, 0, 0] = 20
    for (_, _, history), stop, n in zip(odd, np.cumsum(numbers)[1:], numbers[1:], strict=True):
        known[stop - n : stop, 1] = history
    totals = np.repeat([0, *(total for _, total, _ in odd)], numbers)
    account = np.arange(sum(numbers))
    return SideVotes(totals, account, account >= n_normal, known)


def log_odds(*sides):
    return side_log_odds([(votes, LADDER) for votes in sides], NOISE, 0.001)


def test_usual_accounts_give_no_reason_for_suspicion():
    (found,) = log_odds(side_votes((20, 6, (0, 2))))
    assert np.all(found[:20_000] == -np.inf)
    assert np.all(np.isfinite(found[20_000:]))


def test_without_banks_the_local_score_is_all_there_is():
    nobody_stands_out = side_votes(n_normal=100)
    local = np.linspace(-9, 3, 100)
    found = combine(local, *log_odds(nobody_stands_out, nobody_stands_out))
    assert np.allclose(found, 1 / (1 + np.exp(-local)))


def test_suspicion_rises_with_the_total_without_any_history():
    found = [log_odds(side_votes((200, total, (0, 0))))[0, -1] for total in range(1, 7)]
    assert found == sorted(found)
    assert found[0] < -3
    assert found[-1] > 0


def test_history_can_clear_a_total():
    guilty = log_odds(side_votes((20, 6, (0, 3))))[0, -1]
    cleared = log_odds(side_votes((20, 6, (30, 0))))[0, -1]
    assert guilty > 2.5
    assert cleared < -1.5


@pytest.mark.parametrize("same_side", [True, False])
def test_kinds_that_stand_out_tell_about_each_other(same_side):
    """Two accounts without a past: noise makes their total worthless, other kinds do not."""

    def found(history):
        known, without_past = (20, 5, history), (2, 3, (0, 0))
        if same_side:
            return log_odds(side_votes(known, without_past))[0, -1]
        # As many rows on both sides: one of each transaction.
        return log_odds(side_votes(known, n_normal=19_982), side_votes(without_past))[1, -1]

    nothing_known = log_odds(side_votes((2, 3, (0, 0))))[0, -1]
    assert found((0, 3)) > nothing_known + 1
    assert found((30, 0)) < nothing_known - 0.2


def test_a_busy_account_is_one_account():
    """Nineteen with anomalies only are not outweighed by one with thousands of payments."""
    votes = side_votes((19, 6, (0, 2)), (1, 6, (50_000, 0)))
    assert log_odds(votes)[0, -1] > 0


def test_first_payments_of_a_pair_are_judged_by_first_payments():
    votes = side_votes((20, 5, (0, 2)))
    votes.history[-20:, 0] = (30, 0)  # to accounts they know: nothing ever happened
    votes.is_first[-10:] = False
    first, later = log_odds(votes)[0, [-20, -1]]
    assert first > 1 > -2 > later


@pytest.mark.parametrize("n", [1, 30])
def test_a_few_accounts_alone_can_all_stand_out(n):
    """Micro-batches: who is scored alone is not the usual kind for that."""
    assert np.all(log_odds(side_votes((n, 6, (0, 0)), n_normal=0)) > 0)
    assert np.all(log_odds(side_votes((n, 6, (0, 0)), n_normal=3))[0, :3] == -np.inf)
    assert np.all(log_odds(side_votes(n_normal=n)) == -np.inf)


def test_nothing_to_score_is_no_error():
    nothing = side_votes(n_normal=0)
    assert log_odds(nothing, nothing).shape == (2, 0)


def test_a_payment_is_as_suspicious_as_its_worst_reason_at_least():
    local, ordering, beneficiary = np.array([-8.0, 3.0]), np.array([2.0, -9.0]), np.full(2, -7.0)
    found = combine(local, ordering, beneficiary)
    worst = 1 / (1 + np.exp(-np.maximum(local, ordering)))
    assert np.all(found >= worst)
    assert np.all(found < worst + 0.002)


@pytest.fixture(scope="module")
def labelled():
    """Anomalies of two causes: a high local score, or total 5 on the beneficiary's side."""
    rng, n = np.random.default_rng(4), 60_000
    local = rng.normal(-8, 1.5, n)
    totals = np.zeros((n, 2), np.int64)
    totals[rng.random(n) < 0.002, 1] = 5
    totals[rng.random(n) < 0.01, 0] = 3  # tells nothing
    first = rng.random(n) < 0.3
    chance = 1 - (1 - 1 / (1 + np.exp(-local))) * (1 - 0.8 * (first & (totals[:, 1] == 5)))
    return local, totals, first, (rng.random(n) < chance).astype(np.int8)


def test_the_regression_finds_what_a_total_tells(labelled):
    local, totals, first, labels = labelled
    rows = sample_rows(labels, 1)
    assert labels[rows].sum() == labels.sum()
    fitted = Stacking.fit(
        local[rows], kinds(totals, first)[rows], labels[rows], n_trees=6, all_labels=labels
    )
    ordering, beneficiary = (1 / (1 + np.exp(-one)) for one in fitted.sides)
    # 36 payments of that kind: the share of anomalies among them is 0.8, give or take 0.07.
    assert 0.5 < beneficiary[2 * 5 + 1] < 0.97
    assert max(beneficiary[2 * 5], ordering[2 * 3], ordering[2 * 3 + 1]) < 0.1
    assert 0.5 < fitted.local.slope < 1.5
    again = Stacking.from_document(fitted.to_document())
    assert np.array_equal(
        again.probability(local, kinds(totals, first)),
        fitted.probability(local, kinds(totals, first)),
    )


def test_a_damaged_regression_is_refused():
    with pytest.raises(DataError, match="damaged"):
        Stacking.from_document({"offset": 1.0})


def test_the_scale_of_the_local_score_is_found(labelled):
    local, _, _, labels = labelled
    scale = LocalScale.fit(2 * local + 3, labels, labels)
    assert abs(scale.slope - 0.5) < 0.15


def test_an_unknown_combiner_is_refused_by_name():
    assert [checked_combiner(one) for one in COMBINERS] == list(COMBINERS)
    with pytest.raises(ParameterError, match="calibrated, stacked, votes"):
        checked_combiner("mean")


def test_other_scores_are_another_version_of_the_recipe():
    """Kept studies name it: whoever changes what is below raises `recipe.VERSION`."""
    found = log_odds(side_votes((20, 5, (1, 2)), (2, 3, (0, 0))))[0, [-3, -1]]
    known = {2: [0.298105, -0.673627]}[recipe.VERSION]
    assert found == pytest.approx(known, abs=1e-6)
