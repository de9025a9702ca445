"""What a person gives to the functions of `pv4fad`, checked; what is wrong is one clear error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import ParameterError, StoreError
from pv4fad.lead.data import bank_directory, classified, require_holder_name
from pv4fad.privacy.epsilon import Epsilon, parse_epsilon
from pv4fad.protocol.propose.policy import Policy
from pv4fad.rules import Rules, read_rules, rules_of
from pv4fad.schema import Schema, read_schema, schema_of
from pv4fad.store.key_sources import ENVIRONMENT, create_key_file, passphrase_for, read_key_file
from pv4fad.store.sealing import Passphrase
from pv4fad.tables.several import Several

Source = Any
"""A frame of polars or pandas, anything else that polars takes over, or the path of a file."""
SchemaLike = Schema | Mapping[str, Any] | Path | str
RulesLike = Rules | Iterable[Mapping[str, Any]] | Mapping[str, Any] | Path | str
Limit = float | str


def given_schema(given: SchemaLike) -> Schema:
    """A schema, from an object, a TOML file or its content."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, (str, Path)):
        return read_schema(Path(given))
    if isinstance(given, Mapping):
        return schema_of(given)
    raise ParameterError(f"schema: {type(given).__name__} is neither a Schema nor a path")


def given_table(given: Source) -> Source:
    """A frame as it is; a path as a Path."""
    return Path(given) if isinstance(given, str) else given


def given_rules(given: Mapping[str, RulesLike] | None, holders: Iterable[str]) -> dict[str, Rules]:
    """The rules of each holder that has its own."""
    rules = by_holder("rules", {} if given is None else given, holders)
    return {holder: _rules(holder, one) for holder, one in rules.items()}


def _rules(holder: str, given: RulesLike) -> Rules:
    if isinstance(given, Rules):
        return given
    if isinstance(given, (str, Path)):
        return read_rules(Path(given))
    if isinstance(given, Mapping):
        if set(given) != {"rules"}:
            raise ParameterError(f"rules of {holder}: must have a list called rules only")
        given = given["rules"]
    return rules_of(given, f"rules of {holder}")


def given_limits(
    given: Limit | Mapping[str, Limit] | None, holders: Iterable[str]
) -> dict[str, Epsilon]:
    """The limit for ε of each holder for which one is given."""
    if given is None:
        return {}
    limits = given if isinstance(given, Mapping) else dict.fromkeys(holders, given)
    checked = by_holder("limit", limits, holders)
    return {holder: given_limit(holder, one) for holder, one in checked.items()}


def given_limit(holder: str, given: Limit) -> Epsilon:
    """What a holder allows in total."""
    if isinstance(given, bool) or not isinstance(given, (Real, str)):
        raise ParameterError(f"limit of {holder}: give a number such as 3, or 'none'")
    try:
        return parse_epsilon(str(given))
    except ParameterError as error:
        raise ParameterError(f"limit of {holder}: {error}") from None


def given_policies(
    given: Mapping[str, Mapping[str, Any]] | None, holders: Iterable[str]
) -> dict[str, Policy]:
    """The policy of each holder that has its own; dashes or underscores in its entries."""
    policies = by_holder("policies", {} if given is None else given, holders)
    return {holder: _policy(holder, one) for holder, one in policies.items()}


def _policy(holder: str, given: Mapping[str, Any]) -> Policy:
    if not isinstance(given, Mapping):
        raise ParameterError(f"policy of {holder}: give a mapping such as {{'epsilon': 1}}")
    try:
        return Policy(**{name.replace("-", "_"): value for name, value in given.items()})
    except ParameterError as error:
        raise ParameterError(f"policy of {holder}: {error}") from None


def by_holder(what: str, given: Mapping[str, Any], holders: Iterable[str]) -> Mapping[str, Any]:
    """A mapping whose names are those of holders."""
    if not isinstance(given, Mapping):
        raise ParameterError(f"{what}: give a mapping from the names of holders")
    names = list(holders)
    if unknown := [name for name in given if name not in names]:
        raise ParameterError(
            f"{what}: there is no holder {unknown[0]!r}; the holders are {', '.join(names)}"
        )
    return given


def given_holders(given: Mapping[str, Source]) -> Mapping[str, Source]:
    """The table of each holder, by a name that a party can have."""
    if not isinstance(given, Mapping) or not given:
        raise ParameterError("holders: give a mapping from names to tables, with one at least")
    for name in given:
        require_holder_name(name)
    return given


def given_share(given: float | None) -> float | None:
    """A share of rows; how large it may be, the run says."""
    if isinstance(given, bool) or not isinstance(given, Real | None):
        raise ParameterError(f"alert_share {given!r}: give a number such as 0.001")
    return None if given is None else float(given)


def given_records(
    schema: Schema, holders: Mapping[str, Source], rules: Mapping[str, Rules]
) -> dict[str, pl.DataFrame]:
    """The records of each holder: Holder, Id, Class.

    Every table is read even if one is bad, so that the error names all problems.
    """
    several, records = Several(), dict[str, pl.DataFrame]()
    for name, table in holders.items():
        with several.reading():
            own = rules.get(name)
            if own is not None:
                _require_classes(schema, name, own)
            records[name] = classified(schema, given_table(table), name, own)
    several.refuse()
    bank_directory(records)  # refuses a name that two of them have
    return records


def _require_classes(schema: Schema, holder: str, rules: Rules) -> None:
    try:
        rules.check_classes(schema.record.classes)
    except ParameterError as error:
        raise ParameterError(f"rules of {holder}: {error}") from None


def given_passphrase(folder: Path, key_file: Path | str | None, *, new: bool) -> Passphrase:
    """What seals the stores in a folder: from the key file, or as `Detector.save` says."""
    place = folder.absolute()
    beside = place.with_name(place.name + ".key")
    set_outside = any(name in os.environ for name in (ENVIRONMENT, f"{ENVIRONMENT}_FILE"))
    if key_file is None and set_outside:
        passphrase = passphrase_for("federation")
    else:
        path = beside if key_file is None else Path(key_file)
        if new and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return create_key_file(path)
        if not path.exists():
            raise StoreError(f"{path}: there is no such key file; give key_file=")
        passphrase = read_key_file(path)
    if new:
        passphrase.require_strength()
    return passphrase
