"""Settings: one meaning in a file and on the command line, and no default for ε."""

from fractions import Fraction

import pytest

from pv4fad.errors import ParameterError
from pv4fad.runs.settings import TrainingOptions, TrainingSettings, read_options


def test_epsilon_has_no_default():
    with pytest.raises(ParameterError, match="epsilon"):
        TrainingSettings()


def test_a_decimal_in_a_file_is_that_decimal_and_not_a_binary_fraction(tmp_path):
    path = tmp_path / "train.toml"
    path.write_text('epsilon = 0.1\nhonest-banks = 2\nstructure = "random"\nbank-limit = 3\n')
    options = TrainingOptions(**read_options(path))
    assert options.exact_epsilon == Fraction(1, 10)
    assert options.exact_bank_limit == Fraction(3)
    assert (options.honest_banks, options.structure) == (2, "random")


def test_the_limit_of_a_bank_is_that_of_the_run_unless_it_is_given():
    assert TrainingOptions(epsilon="0.5").exact_bank_limit == Fraction(1, 2)
    assert TrainingOptions(epsilon="none").exact_bank_limit == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon = 1\ntress = 3", "unknown option 'tress'"),
        ("epsilon = ", "train.toml"),
        ('epsilon = 1\ntrees = "many"', "trees: Input should be a valid integer"),
        ('epsilon = 1\nstructure = "oak"', "structure: Input should be 'template' or 'random'"),
        ("epsilon = 1\nheight = 4", "template trees have a height of at most 3"),
        ('epsilon = "some"', "expected a number"),
        ("epsilon = true", "epsilon"),
        ("epsilon = 1\nseed = -1", "seed"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "train.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        TrainingOptions(**read_options(path))


def test_public_sizes_follow_from_the_settings_alone():
    sizes = TrainingSettings(epsilon="1").forest_config().sizes
    assert (sizes.n_trees, sizes.groups_per_tree, sizes.n_sums) == (24, 1, 48)
    sizes = TrainingSettings(epsilon="1", structure="random", trees=5, height=4)
    assert sizes.forest_config().sizes.n_sums == 5 * 2**3


def test_without_epsilon_there_is_no_noise_whatever_was_asked_for():
    assert TrainingSettings(epsilon="none", noise="per-bank").noise_mode == "none"
    assert TrainingSettings(epsilon="1", noise="per-bank").noise_mode == "per-bank"
