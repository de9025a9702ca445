"""Three public data sets with their codebooks: adult, mushroom and nursery (UCI, CC BY 4.0).

The domains are those of the published codebooks, missing values (`?`) included, and not what the
files happen to contain: a private forest must not look.  No row is left out.

Training and test rows: adult comes with a split; of the others a quarter of the rows, drawn once
and for all, is for the test.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.estimator.domains import Categorical, Declared, Numeric

SPLIT = "split"  # adult's column that says train or test


@dataclass(frozen=True)
class Codebook:
    """What is publicly known of a data set."""

    name: str
    target: str
    classes: tuple[str, ...]
    features: dict[str, Declared]


@dataclass(frozen=True)
class Rows:
    """Features as numbers, a category being the number of its place in the codebook."""

    features: NDArray[np.float64]
    label: NDArray[np.intp]


@dataclass(frozen=True)
class TabularData:
    """A data set, ready for scikit-learn classifiers."""

    codebook: Codebook
    train: Rows
    test: Rows

    @property
    def domains(self) -> list[Declared]:
        """Of the features as numbers."""
        return [
            Categorical(range(len(domain.values))) if isinstance(domain, Categorical) else domain
            for domain in self.codebook.features.values()
        ]

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """The smallest and the largest number of each feature."""
        lows = [domain.low if isinstance(domain, Numeric) else 0 for domain in self.domains]
        highs = [
            domain.high if isinstance(domain, Numeric) else len(domain.values) - 1
            for domain in self.domains
        ]
        return lows, highs


def load_tabular(folder: Path, codebook: Codebook) -> TabularData:
    """Read NAME.csv.gz of the folder."""
    file = folder / f"{codebook.name}.csv.gz"
    if not file.is_file():
        raise DataError(
            f"{file}: no such file; --data names a folder with "
            + ", ".join(f"{one.name}.csv.gz" for one in CODEBOOKS)
        )
    try:
        table = pl.read_csv(file, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{file}: no readable table: {reason}") from None
    missing = {codebook.target, *codebook.features} - set(table.columns)
    if missing:
        raise DataError(f"{file}: column {min(missing)} is missing")
    if SPLIT in table.columns:
        is_test = (table[SPLIT] == "test").to_numpy()
    else:
        is_test = np.random.default_rng(0).permutation(len(table)) < len(table) // 4
    features = np.column_stack(
        [_as_numbers(file, table[name], domain) for name, domain in codebook.features.items()]
    )
    label = _codes(file, table[codebook.target], Categorical(codebook.classes))
    if is_test.all() or not is_test.any():
        raise DataError(f"{file}: needs rows to learn from and rows to test with")
    train, test = (Rows(features[chosen], label[chosen]) for chosen in (~is_test, is_test))
    return TabularData(codebook, train, test)


def _as_numbers(file: Path, column: pl.Series, domain: Declared) -> NDArray[np.float64]:
    if isinstance(domain, Categorical):
        return _codes(file, column, domain).astype(np.float64)
    numbers = column.cast(pl.Float64, strict=False)
    if not numbers.is_finite().fill_null(False).all():
        raise DataError(f"{file}: column {column.name} has a value that is no number")
    return numbers.to_numpy()


def _codes(file: Path, column: pl.Series, domain: Categorical) -> NDArray[np.intp]:
    codes = domain.encode(column.to_numpy().astype(np.str_))
    if (codes == len(domain.values)).any():
        raise DataError(f"{file}: column {column.name} has a value that its codebook lacks")
    return codes


def _words(text: str) -> Categorical:
    return Categorical(text.split())


_SURFACES, _STALK_COLORS = Categorical("fyks"), Categorical("nbcgopewy")

ADULT = Codebook(
    name="adult",
    target="income",
    classes=("<=50K", ">50K"),
    features={
        "age": Numeric(17, 90),
        "workclass": _words(
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay"
            " Never-worked ?"
        ),
        "fnlwgt": Numeric(0, 1_500_000),
        "education": _words(
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th"
            " Masters 1st-4th 10th Doctorate 5th-6th Preschool"
        ),
        "education_num": Numeric(1, 16),
        "marital_status": _words(
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent"
            " Married-AF-spouse"
        ),
        "occupation": _words(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty"
            " Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving"
            " Priv-house-serv Protective-serv Armed-Forces ?"
        ),
        "relationship": _words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
        "race": _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
        "sex": _words("Female Male"),
        "capital_gain": Numeric(0, 99_999),
        "capital_loss": Numeric(0, 5_000),
        "hours_per_week": Numeric(1, 99),
        "native_country": _words(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc)"
            " India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica"
            " Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti"
            " Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador"
            " Trinadad&Tobago Peru Hong Holand-Netherlands ?"
        ),
    },
)
MUSHROOM = Codebook(
    name="mushroom",
    target="class",
    classes=("e", "p"),
    features={
        "cap_shape": Categorical("bcxfks"),
        "cap_surface": Categorical("fgys"),
        "cap_color": Categorical("nbcgrpuewy"),
        "bruises": Categorical("tf"),
        "odor": Categorical("alcyfmnps"),
        "gill_attachment": Categorical("adfn"),
        "gill_spacing": Categorical("cwd"),
        "gill_size": Categorical("bn"),
        "gill_color": Categorical("knbhgropuewy"),
        "stalk_shape": Categorical("et"),
        "stalk_root": Categorical("bcuezr?"),
        "stalk_surface_above_ring": _SURFACES,
        "stalk_surface_below_ring": _SURFACES,
        "stalk_color_above_ring": _STALK_COLORS,
        "stalk_color_below_ring": _STALK_COLORS,
        "veil_type": Categorical("pu"),
        "veil_color": Categorical("nowy"),
        "ring_number": Categorical("not"),
        "ring_type": Categorical("ceflnpsz"),
        "spore_print_color": Categorical("knbhrouwy"),
        "population": Categorical("acnsvy"),
        "habitat": Categorical("glmpuwd"),
    },
)
NURSERY = Codebook(
    name="nursery",
    target="class",
    classes=("not_recom", "recommend", "very_recom", "priority", "spec_prior"),
    features={
        "parents": _words("usual pretentious great_pret"),
        "has_nurs": _words("proper less_proper improper critical very_crit"),
        "form": _words("complete completed incomplete foster"),
        "children": _words("1 2 3 more"),
        "housing": _words("convenient less_conv critical"),
        "finance": _words("convenient inconv"),
        "social": _words("nonprob slightly_prob problematic"),
        "health": _words("recommended priority not_recom"),
    },
)
CODEBOOKS = (ADULT, MUSHROOM, NURSERY)
