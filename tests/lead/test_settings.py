"""Settings: one meaning in a file and on the command line, and no default for ε."""

from fractions import Fraction

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.lead.settings import TrainingOptions, TrainingSettings, read_options
from pv4fad.payments.schema import SCHEMA


def test_epsilon_has_no_default():
    with pytest.raises(ParameterError, match="epsilon"):
        TrainingSettings()


def test_a_decimal_in_a_file_is_that_decimal_and_not_a_binary_fraction(tmp_path):
    path = tmp_path / "train.toml"
    path.write_text("epsilon = 0.1\nhonest-banks = 2\nalert-share = 0.001\nbank-limit = 3\n")
    options = TrainingOptions(**read_options(path))
    assert options.exact_epsilon == Fraction(1, 10)
    assert options.exact_bank_limit == Fraction(3)
    assert (options.honest_banks, options.alert_share) == (2, 0.001)


def test_the_limit_of_a_bank_is_that_of_the_run_unless_it_is_given():
    assert TrainingOptions(epsilon="0.5").exact_bank_limit == Fraction(1, 2)
    assert TrainingOptions(epsilon="none").exact_bank_limit == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon = 1\ntress = 3", "unknown option 'tress'"),
        ("epsilon = 1\ncombiner = 'ladder'", "unknown option 'combiner'"),
        ("epsilon = ", "train.toml"),
        ('epsilon = 1\nmodel = "oak"', "model: must be 'evidence' or 'paper'"),
        ('epsilon = 1\nmodel = "paper"\ntrees = "many"', "trees: must be a whole number"),
        ('epsilon = 1\nsets = "auto"', "sets: must be 'fine' or 'coarse'"),
        ('epsilon = 1\nabsent = "severe"', "absent: must be 'class' or 'ordinary'"),
        (
            'epsilon = 1\nmodel = "paper"\nscoring = "sealed"',
            "scoring: must be 'decisions'",
        ),
        ("epsilon = 1\nalert-share = 0", "alert_share: must be greater than 0"),
        (
            "epsilon = 1\nalert-share = 0.2",
            "alert_share: must be at most 0.1",
        ),
        ("epsilon = 1\nhonest-banks = 0", "honest_banks"),
        ('epsilon = "some"', "expected a number"),
        ("epsilon = 0", "epsilon must be greater than 0"),
        ("epsilon = true", "epsilon"),
        ("epsilon = 1\nseed = -1", "seed"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "train.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        TrainingOptions(**read_options(path))


OF_EVIDENCE = {"sets": "coarse", "absent": "ordinary", "alert_share": 0.001}
OF_PAPER = {"scoring": "votes", "bound": 2, "trees": 5, "height": 3}


@pytest.mark.parametrize("name", [*OF_EVIDENCE, *OF_PAPER])
def test_an_option_of_the_other_model_is_refused_by_name(name):
    mine, other = ("evidence", "paper") if name in OF_EVIDENCE else ("paper", "evidence")
    value = (OF_EVIDENCE | OF_PAPER)[name]
    with pytest.raises(ParameterError, match=f"{name} is an option of model {mine} only"):
        TrainingSettings(epsilon="1", model=other, **{name: value})
    settings = TrainingSettings(epsilon="1", model=mine, **{name: value})
    assert getattr(settings, name) == value


def test_what_training_ends_with_follows_from_model_and_scoring():
    paper = {"epsilon": "1", "model": "paper"}
    assert TrainingSettings(epsilon="1").mode == "counts"
    assert TrainingSettings(**paper).mode == "released"
    assert TrainingSettings(**paper, scoring="votes").mode == "sealed"


def test_public_sizes_of_the_forest_follow_from_the_settings_alone():
    paper = {"epsilon": "1", "model": "paper"}
    sizes = TrainingSettings(**paper).forest_config(SCHEMA).sizes
    assert (sizes.n_trees, sizes.n_sums) == (12, 12 * 2**5)
    sizes = TrainingSettings(**paper, trees=5, height=4).forest_config(SCHEMA).sizes
    assert sizes.n_sums == 5 * 2**3


def test_every_tree_has_a_rate_and_the_bound_is_that_of_the_settings():
    settings = TrainingSettings(epsilon="1", model="paper", trees=5, bound=2)
    counting = settings.count_config(np.array([0] * 99 + [1], np.int8))
    assert (counting.bound, len(counting.label0_rates)) == (2, 5)


def test_without_epsilon_there_is_no_noise_whatever_was_asked_for():
    assert TrainingSettings(epsilon="none", noise="per-bank").noise_mode == "none"
    assert TrainingSettings(epsilon="1", noise="per-bank").noise_mode == "per-bank"


def test_an_option_of_the_other_model_is_refused_also_with_its_usual_value():
    with pytest.raises(ParameterError, match="sets is an option of model evidence only"):
        TrainingOptions(epsilon="1", model="paper", sets="fine")
    with pytest.raises(ParameterError, match="trees is an option of model paper only"):
        TrainingOptions(epsilon="1", trees=12)
    assert TrainingOptions(epsilon="1", model="paper").settings().model == "paper"
