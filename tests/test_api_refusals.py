"""Wrong tables and arguments of `pv4fad`: one clear error each, before anything is sent."""

import polars as pl
import pytest

import pv4fad
import tests.kit.claims as world
from pv4fad.errors import DataError, ParameterError, PolicyError, StoreError, UserError

HOSPITALS, SCHEMA, CLAIMS = world.hospital_records(), world.claims_schema(), world.claims()
NORTH = HOSPITALS["north"]


def _bank(**columns):
    """A bank's table with one account."""
    texts = {"Bank": "DEUTDEFF", "Account": "A1", "Name": None, "Street": None}
    texts |= {"CountryCityZip": None, "Flags": "00"}
    return pl.DataFrame({name: [value] for name, value in (texts | columns).items()})


WRONG_FEDERATIONS = {
    "no holder": (({}, SCHEMA), {}, "holders: give a mapping"),
    "holders that are nothing": ((None, SCHEMA), {}, "holders: give a mapping"),
    "holders in a list": (([NORTH], SCHEMA), {}, "holders: give a mapping"),
    "a name with a space": (({"the north": NORTH}, SCHEMA), {}, "holder 'the north': a name has"),
    "a name that is no text": (({7: NORTH}, SCHEMA), {}, "holder 7: a name has"),
    "the name of another party": (
        ({"aggregator": NORTH}, SCHEMA),
        {},
        "holder 'aggregator': another party has this name",
    ),
    "no frame": (({"north": [1, 2]}, SCHEMA), {}, "the records of north: list is neither"),
    "no file": (({"north": "north.csv"}, SCHEMA), {}, "north.csv: not found"),
    "a column is missing": (
        ({"north": NORTH.drop("Person")}, SCHEMA),
        {},
        "the records of north: column Person: missing",
    ),
    "no column is known": (
        ({"north": pl.DataFrame({"a": [1]})}, SCHEMA),
        {},
        "the records of north: has none of the",
    ),
    "an unknown class": (
        ({"north": NORTH.with_columns(Class=pl.lit("odd"))}, SCHEMA),
        {},
        "column Class: 60 rows have",
    ),
    "no row": (({"north": NORTH.head(0)}, SCHEMA), {}, "the records of north: the table is empty"),
    "two bad tables, both named": (
        ({"north": NORTH.drop("Class"), "south": NORTH.drop("Class")}, SCHEMA),
        {},
        "(?s)north: column Class.*south: column Class",
    ),
    "accounts as numbers": (
        ({"b": _bank(Account=17)},),
        {},
        "column Account: stored as Int64.*lose leading zeros",
    ),
    "an unknown flag": (({"b": _bank(Flags="99")},), {}, "records of b: column Flags: 1 row has"),
    "two holders of one name": (({"a": _bank(), "b": _bank()},), {}, "DEUTDEFF is at a and at b"),
    "a schema of another type": (({"north": NORTH}, 7), {}, "schema: int is neither"),
    "no schema file": (({"north": NORTH}, "no.toml"), {}, "no.toml: not found"),
    "a schema without sides": (({"north": NORTH}, {"name": "x"}), {}, "schema: "),
    "rules of nobody": (
        (HOSPITALS, SCHEMA),
        {"rules": {"west": []}},
        "rules: there is no holder 'west'",
    ),
    "rules in a list": ((HOSPITALS, SCHEMA), {"rules": []}, "rules: give a mapping"),
    "rules with an unknown class": (
        (HOSPITALS, SCHEMA),
        {"rules": {"north": [{"class": "odd", "column": "Rating", "is": 1}]}},
        r"^rules of north: rule 1 \(class 'odd'\): there is no such class",
    ),
    "rules of two holders with an unknown class, both named": (
        (HOSPITALS, SCHEMA),
        {"rules": {name: [{"class": "odd", "column": "Rating", "is": 1}] for name in HOSPITALS}},
        "(?s)rules of north: rule 1.*rules of south: rule 1",
    ),
    "accounts of a bank with a rule of an unknown class": (
        ({"b": _bank()},),
        {"rules": {"b": [{"class": "odd", "column": "Flags", "is": "07"}]}},
        "^rules of b: rule 1",
    ),
    "rules about an unknown column": (
        (HOSPITALS, SCHEMA),
        {"rules": {"north": [{"class": "watch", "column": "Age", "is": 1}]}},
        "no column 'Age'",
    ),
    "rules that are a number": ((HOSPITALS, SCHEMA), {"rules": {"north": 5}}, "rules of north: "),
    "a limit of nobody": ((HOSPITALS, SCHEMA), {"limit": {"west": 1}}, "limit: there is no holder"),
    "a limit below zero": ((HOSPITALS, SCHEMA), {"limit": -1}, "limit of north: ε '-1'"),
    "a limit that is no number": (
        (HOSPITALS, SCHEMA),
        {"limit": [1]},
        "limit of north: give a number",
    ),
    "a policy of nobody": (
        (HOSPITALS, SCHEMA),
        {"policies": {"west": {}}},
        "policies: there is no holder",
    ),
    "a policy with an unknown entry": (
        (HOSPITALS, SCHEMA),
        {"policies": {"north": {"friends": 2}}},
        "policy of north: friends: is unknown",
    ),
    "a policy that is a number": (
        (HOSPITALS, SCHEMA),
        {"policies": {"north": 2}},
        "policy of north: give a mapping",
    ),
    "fewer than no workers": ((HOSPITALS, SCHEMA), {"workers": -1}, "workers -1"),
    "half a worker": ((HOSPITALS, SCHEMA), {"workers": 1.5}, "workers 1.5: give a whole number"),
    "workers that are true": ((HOSPITALS, SCHEMA), {"workers": True}, "workers True: give a"),
}


@pytest.mark.parametrize("case", WRONG_FEDERATIONS)
def test_a_wrong_federation_is_refused(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, options, message = WRONG_FEDERATIONS[case]
    with pytest.raises(UserError, match=message):
        pv4fad.simulate(*given, **options)
    assert not list(tmp_path.iterdir())


WRONG_FITS = {
    "no ε": ({"epsilon": None}, CLAIMS, "epsilon: give a number such as 1"),
    "ε is zero": ({"epsilon": 0}, CLAIMS, "epsilon must be greater than 0"),
    "ε is true": ({"epsilon": True}, CLAIMS, "epsilon: give a number such as 1"),
    "ε is a list": ({"epsilon": [1]}, CLAIMS, "epsilon: give a number such as 1"),
    "ε is a word": ({"epsilon": "small"}, CLAIMS, "ε 'small': expected a number"),
    "too many alerts": ({"epsilon": 1, "alert_share": 2}, CLAIMS, "alert_share"),
    "an unknown model": (
        {"epsilon": 1, "model": "best"},
        CLAIMS,
        "model: must be 'evidence' or 'paper'",
    ),
    "an option of the other model": (
        {"epsilon": 1, "trees": 5},
        CLAIMS,
        "trees is an option of model",
    ),
    "no honest holder": ({"epsilon": 1, "honest_holders": 0}, CLAIMS, "honest_holders: "),
    "more honest holders than there are": (
        {"epsilon": 1, "honest_holders": 3},
        CLAIMS,
        "3 honest parties have to add noise, but only 2",
    ),
    "a seed that is a word": ({"epsilon": 1, "seed": "x"}, CLAIMS, "seed: must be a whole number"),
    "no label": ({"epsilon": 1}, CLAIMS.drop("Fraud"), "the rows: column Fraud: missing"),
    "no anomaly": ({"epsilon": 1}, CLAIMS.with_columns(Fraud=0), "label 1"),
    "nothing but anomalies": ({"epsilon": 1}, CLAIMS.with_columns(Fraud=1), "every row has label"),
    "a third label": (
        {"epsilon": 1},
        CLAIMS.with_columns(Fraud=pl.int_range(pl.len()) % 3),
        "column Fraud: 133 rows have a label other than 0 and 1",
    ),
    "no row": ({"epsilon": 1}, CLAIMS.head(0), "the rows: the table is empty"),
    "no frame": ({"epsilon": 1}, 5, "the rows: int is neither a pathlib.Path nor a data frame"),
    "an id twice": ({"epsilon": 1}, pl.concat([CLAIMS, CLAIMS]), "an id that an earlier row has"),
    "an amount in words": (
        {"epsilon": 1},
        CLAIMS.with_columns(Amount=pl.lit("much")),
        "column Amount: 400 rows have no",
    ),
}


@pytest.fixture(scope="module")
def untrained():
    with pv4fad.simulate(HOSPITALS, SCHEMA, limit="none") as federation:
        yield federation


@pytest.mark.parametrize("case", WRONG_FITS)
def test_wrong_parameters_and_rows_are_refused_when_a_detector_is_fitted(case, untrained):
    parameters, rows, message = WRONG_FITS[case]
    detector = pv4fad.Detector(**parameters)
    with pytest.raises((ParameterError, DataError), match=message):
        detector.fit(rows, untrained)
    assert not hasattr(detector, "run_")
    assert not any(ledger.expenses for ledger in untrained.ledgers.values())


def test_a_schema_of_payments_with_columns_of_its_own_is_refused():
    other = SCHEMA.model_copy(update={"format": "payments"})
    message = "schema 'claims': format is payments, which have no column 'ClaimId'"
    with pv4fad.simulate({"b": _bank()}, other) as federation:
        with pytest.raises(ParameterError, match=message):
            pv4fad.Detector(epsilon=1).fit(CLAIMS, federation)
        assert not federation.ledgers["b"].expenses


def test_a_holder_takes_no_part_in_a_training_outside_of_its_policy():
    policies = {"south": {"relies-on": [], "honest-share": 1, "epsilon": 0.5}}
    with pv4fad.simulate(HOSPITALS, SCHEMA, limit=9, policies=policies) as federation:
        for wrong, rule in (({"epsilon": 1}, "epsilon"), ({"honest_holders": 2}, "relies-on")):
            detector = pv4fad.Detector(**{"epsilon": 0.5, "honest_holders": 1} | wrong)
            with pytest.raises(PolicyError, match=f"south takes no part in run.*policy on {rule}"):
                detector.fit(CLAIMS, federation)
        assert not any(ledger.expenses for ledger in federation.ledgers.values())


def test_further_wrong_uses_are_refused(untrained, tmp_path):
    detector = pv4fad.Detector(epsilon=1)
    for call, error, message in (
        (lambda: detector.fit(CLAIMS, HOSPITALS), ParameterError, "federation: give what"),
        (lambda: detector.set_params(eps=2), ParameterError, "eps: no such parameter"),
        (lambda: untrained.refresh({"west": NORTH}), ParameterError, "no holder 'west'"),
        (lambda: untrained.set_limit("west", 1), ParameterError, "no holder 'west'"),
        (lambda: pv4fad.load(tmp_path / "none"), StoreError, "holds no run"),
        (lambda: pv4fad.load(untrained), ParameterError, "give the folder of a run"),
        (lambda: pv4fad.connect(tmp_path), DataError, "is not the folder of a party"),
    ):
        with pytest.raises(error, match=message):
            call()
    closed = pv4fad.simulate(HOSPITALS, SCHEMA)
    closed.close()
    with pytest.raises(StoreError, match="the federation is closed"):
        detector.fit(CLAIMS, closed)
