"""The comparison with diffprivlib measures what it says, and needs what it says it needs."""

import gzip
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from pv4fad.cli.main import app
from pv4fad.errors import DataError, ParameterError
from pv4fad.estimator import Numeric, RandomDecisionForestClassifier
from pv4fad_bench.dp_forest import EPSILONS, Setting, compare_forests
from pv4fad_bench.tabular import ADULT, CODEBOOKS, MUSHROOM, NURSERY, load_tabular

PUBLIC_DATA = Path(__file__).parents[3] / "shared" / "data" / "tabular"
needs_public_data = pytest.mark.skipif(
    not PUBLIC_DATA.is_dir(), reason="the public data sets are not part of the product"
)


class LargestClass:
    """Stands in for diffprivlib's forest: takes what that takes, and says the largest class."""

    def __init__(self, n_trees, *, max_depth, epsilon, bounds, classes, shuffle, random_state):
        self.given = (n_trees, max_depth, epsilon, bounds, classes, shuffle, random_state)
        RIVALS.append(self)

    def fit(self, features, label):
        self.largest = np.bincount(label).argmax()

    def predict(self, features):
        return np.full(len(features), self.largest)


RIVALS: list[LargestClass] = []


@pytest.fixture
def rival(monkeypatch):
    RIVALS.clear()
    module = SimpleNamespace(RandomForestClassifier=LargestClass)
    monkeypatch.setitem(sys.modules, "diffprivlib.models", module)
    return RIVALS


def made_up(codebook, n_rows: int, rng: np.random.Generator) -> str:
    """Rows that follow the codebook; the last feature decides between the first two classes."""
    columns = {
        name: rng.integers(domain.low, domain.high, n_rows).astype(str)
        if isinstance(domain, Numeric)
        else rng.choice(domain.values, n_rows)
        for name, domain in codebook.features.items()
    }
    *_, last = codebook.features.items()
    is_first = columns[last[0]] == last[1].values[0]
    columns[codebook.target] = np.where(is_first, *codebook.classes[:2])
    if codebook is ADULT:
        columns["split"] = np.where(np.arange(n_rows) % 4, "train", "test")
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows), ""])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tabular")
    rng = np.random.default_rng(1)
    for codebook in CODEBOOKS:
        text = made_up(codebook, 2000, rng)
        (place / f"{codebook.name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return place


def test_both_forests_get_the_same_terms(folder, rival):
    comparisons = list(compare_forests(folder, Setting(n_trees=7, max_depth=3, n_seeds=2)))
    assert [(one.data, one.epsilon) for one in comparisons] == [
        (codebook.name, epsilon) for codebook in CODEBOOKS for epsilon in EPSILONS
    ]
    assert len(rival) == 2 * len(comparisons)
    for number, one in enumerate(rival):
        n_trees, depth, epsilon, (lows, highs), classes, shuffle, seed = one.given
        codebook = CODEBOOKS[number // (2 * len(EPSILONS))]
        assert (n_trees, depth, seed, shuffle) == (7, 3, number % 2, True)
        assert epsilon == comparisons[number // 2].epsilon
        assert len(lows) == len(highs) == len(codebook.features)
        assert len(classes) == len(codebook.classes)


def test_accuracy_is_that_on_the_test_rows_and_time_that_of_fitting(folder, rival, monkeypatch):
    quick = LargestClass.fit

    def slow(self, features, label):
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        quick(self, features, label)

    monkeypatch.setattr(LargestClass, "fit", slow)
    first = next(compare_forests(folder, Setting(5, 3, 1)))
    test = load_tabular(folder, ADULT).test
    assert len(test.label) == 500
    assert first.theirs.accuracy == first.largest_class == pytest.approx(np.mean(test.label == 1))
    assert first.theirs.deviation == 0
    assert first.theirs.fit_s >= 0.05
    assert first.times_faster == first.theirs.fit_s / first.ours.fit_s


def test_the_command_prints_and_writes_every_comparison(folder, rival, tmp_path):
    file = tmp_path / "figures.json"
    options = ["--data", str(folder), "--trees", "10", "--depth", "3", "--seeds", "1"]
    result = CliRunner().invoke(app, ["bench", "dp-forest", *options, "--json", str(file)])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert (report["n_trees"], report["max_depth"], report["n_seeds"]) == (10, 3, 1)
    assert len(report["comparisons"]) == 9
    for one in report["comparisons"]:
        assert f"{one['ours']['accuracy']:.3f}" in result.output
    # The last feature decides the class; with ε = 5 the forest is better than the largest class.
    best = [one for one in report["comparisons"] if one["epsilon"] == 5 and one["data"] != "adult"]
    assert all(one["ours"]["accuracy"] > one["largest_class"] + 0.05 for one in best)
    for line in ("at least as accurate as diffprivlib: ", "at least 3 times as fast: "):
        assert line in result.output


def test_without_diffprivlib_it_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    with pytest.raises(ParameterError, match=r"pip install 'pv4fad\[bench\]'"):
        next(compare_forests(folder, Setting(1, 1, 1)))


def test_an_absent_or_broken_file_is_named(folder, tmp_path):
    with pytest.raises(DataError, match=r"adult.csv.gz: no such file; --data names a folder with"):
        load_tabular(tmp_path, ADULT)
    text = gzip.decompress((folder / "nursery.csv.gz").read_bytes()).decode()
    broken = {
        "column health is missing": text.replace("health", "wealth", 1),
        "column finance has a value that its codebook lacks": text.replace("inconv", "poor"),
        "no readable table: ": "",
        "nursery.csv.gz: no readable table: ": text + "1,2,3,4,5,6,7,8,9,10,11,12\n",
        "needs rows to learn from": text.splitlines()[0] + "\n",
    }
    for said, contents in broken.items():
        (tmp_path / "nursery.csv.gz").write_bytes(gzip.compress(contents.encode()))
        with pytest.raises(DataError, match=said):
            load_tabular(tmp_path, NURSERY)
    adult = gzip.decompress((folder / "adult.csv.gz").read_bytes()).decode()
    head, row, rest = adult.split("\n", 2)
    adult = "\n".join([head, "old" + row[row.index(",") :], rest])
    (tmp_path / "adult.csv.gz").write_bytes(gzip.compress(adult.encode()))
    with pytest.raises(DataError, match="column age has a value that is no number"):
        load_tabular(tmp_path, ADULT)
    adult = "\n".join([head, row[row.index(",") :], rest])
    (tmp_path / "adult.csv.gz").write_bytes(gzip.compress(adult.encode()))
    with pytest.raises(DataError, match="column age has a value that is no number"):
        load_tabular(tmp_path, ADULT)
    (tmp_path / "adult.csv.gz").write_bytes(gzip.compress(adult.encode())[:-20])
    with pytest.raises(DataError, match=r"adult.csv.gz: no readable table"):
        load_tabular(tmp_path, ADULT)


@needs_public_data
@pytest.mark.parametrize(
    ("codebook", "n_train", "n_test"),
    [(ADULT, 32_561, 16_281), (MUSHROOM, 6_093, 2_031), (NURSERY, 9_720, 3_240)],
    ids=lambda value: getattr(value, "name", None),
)
def test_no_row_of_the_public_data_is_left_out_and_codebooks_are_complete(
    codebook, n_train, n_test
):
    data = load_tabular(PUBLIC_DATA, codebook)
    assert (len(data.train.label), len(data.test.label)) == (n_train, n_test)
    lows, highs = data.bounds
    both = np.concatenate([data.train.features, data.test.features])
    assert (both >= lows).all()
    assert (both <= highs).all()


@needs_public_data
@pytest.mark.parametrize(
    ("codebook", "least"), [(ADULT, 0.8), (MUSHROOM, 0.86), (NURSERY, 0.86)], ids=lambda value: None
)
def test_public_data_is_learned_with_epsilon_one(codebook, least):
    # One structure.  The mean over noise is 0.04 or more above `least`, eight and more times the
    # standard deviation; the largest class has 0.764, 0.506 and 0.320.
    data = load_tabular(PUBLIC_DATA, codebook)
    forest = RandomDecisionForestClassifier(epsilon=1, domains=data.domains, random_state=0)
    forest.fit(data.train.features, data.train.label)
    assert forest.score(data.test.features, data.test.label) > least


@needs_public_data
@pytest.mark.slow
def test_it_is_at_least_as_accurate_as_diffprivlib():
    pytest.importorskip("diffprivlib", reason="comes with make test-all")
    comparisons = list(compare_forests(PUBLIC_DATA, Setting(20, 4, 5)))
    assert len(comparisons) == len(CODEBOOKS) * len(EPSILONS)
    for one in comparisons:
        # The leads are 0.045 and more, but for mushroom at ε = 0.1, where both are at 0.88 ± 0.02.
        lead = one.ours.accuracy - one.theirs.accuracy
        assert lead > (0.02 if one.epsilon >= 1 else -0.04), one
