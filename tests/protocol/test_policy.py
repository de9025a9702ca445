"""A bank refuses a run that its policy does not allow, and says by which rule."""

from __future__ import annotations

from functools import cache

import pytest

from pv4fad.cli.params import default_model, paper_model, plan_run
from pv4fad.errors import ParameterError, PolicyError
from pv4fad.forest.structure import PublicSizes
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.policy import Policy

N_BANKS = 25


@cache
def base(mode: str) -> RunParameters:
    model = (
        default_model("fine", "class")
        if mode == "counts"
        else paper_model(PublicSizes(4, 8, 2, 2, 11), 4, mode)
    )
    return plan_run(model, 5000, 5000, N_BANKS, epsilon="1", noise="distributed", honest_banks=5)


def run(mode: str = "counts", **changes) -> RunParameters:
    whole = base(mode)
    fields = {name: getattr(whole, name) for name in RunParameters.model_fields}
    if "banks" in changes:
        names = changes["banks"]
        changes["banks"] = dict.fromkeys(names, 5000)
        tables = [plan for plan in whole.tables if set(plan.banks) <= set(names)]
        changes["tables"] = tuple(tables)
    return RunParameters(**fields | changes)


def picked(*names: str) -> RunParameters:
    """A run of these banks alone, all of which are relied on."""
    return run(banks=names, honest_banks=len(names))


FIVE = ("bank01", "bank02", "bank03", "bank04", "bank05")


def test_a_run_with_the_very_banks_that_the_payment_network_picked_is_refused():
    """H = 5 is fine in a run of 25; in one of five, the other four may be the payment network's."""
    assert base("counts").honest_banks == 5
    Policy().require(base("counts"), "bank01")
    with pytest.raises(PolicyError, match=r"at most 3 of 5, itself included\).*relies on 5"):
        Policy().require(picked(*FIVE), "bank01")
    relies = Policy(relies_on=("bank02", "bank20", "bank21", "bank22"), honest_share=1)
    relies.require(base("counts"), "bank01")
    with pytest.raises(PolicyError, match=r"relies-on: .* relies on 5.*only bank01, bank02 take"):
        relies.require(picked(*FIVE), "bank01")


@pytest.mark.parametrize(
    ("policy", "changes", "rule"),
    [
        ({"modes": ("counts",)}, {"mode": "released"}, r"modes \(counts\): the run has mode rel"),
        ({"modes": ("counts", "released")}, {"mode": "sealed"}, "modes"),
        ({"noise": ("per-bank",)}, {}, r"noise \(per-bank\): the run has noise distributed"),
        ({"noise": ("distributed",)}, {"noise": "none", "epsilon": "none"}, "noise"),
        ({"metered": True}, {}, "metered: the run is not metered"),
        ({"bound": 3}, {"mode": "released"}, r"bound \(at most 3\): the run has bound 4"),
        ({"epsilon": "1/2"}, {}, r"epsilon \(at most 0.5\): the run has 1"),
        ({"epsilon": 3}, {"noise": "none", "epsilon": "none"}, "epsilon"),
        ({"honest_banks": 4}, {}, r"at most 4 of 25, itself included\).*relies on 5"),
        ({"honest_share": 0.19}, {}, r"at most 4 of 25"),
        ({"honest_share": 0.01}, {}, r"at most 1 of 25"),
        ({"relies_on": ()}, {}, "only bank01 take part"),
        ({"relies_on": ("bank99",)}, {}, "only bank01 take part"),
    ],
)
def test_each_rule_refuses_and_is_named(policy, changes, rule):
    with pytest.raises(
        PolicyError, match=f"bank01 takes no part in run .*, by its policy on.*{rule}"
    ):
        Policy(**policy).require(run(**changes), "bank01")


@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        ({}, {}),
        ({}, {"mode": "sealed"}),
        ({}, {"noise": "none", "epsilon": "none"}),
        ({"metered": True}, {"metered": True}),
        ({}, {"metered": True}),
        ({"honest_banks": 5}, {}),
        ({"honest_share": 0.2}, {}),
        ({"honest_banks": 1, "relies_on": ()}, {"noise": "per-bank"}),  # it relies on nobody
        ({"relies_on": ()}, {"honest_banks": 1}),
        ({"relies_on": ("bank02", "bank03", "bank04", "bank05", "bank99")}, {}),
        ({"epsilon": "1", "bound": 1, "modes": ("counts",), "noise": ("distributed",)}, {}),
    ],
)
def test_what_the_rules_allow_is_allowed(policy, changes):
    Policy(**policy).require(run(**changes), "bank01")


@pytest.mark.parametrize(
    "wrong",
    [
        {"modes": ()},
        {"modes": ("labels",)},
        {"noise": ("some",)},
        {"bound": 0},
        {"epsilon": "0"},
        {"epsilon": "none"},
        {"epsilon": "much"},
        {"honest_banks": 0},
        {"honest_share": 0},
        {"honest_share": 1.5},
        {"relies_on": "bank01"},
        {"relies": ("bank01",)},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))}|ε"):
        Policy(**wrong)
