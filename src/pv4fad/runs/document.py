"""run.json: what everybody may know about a run, for people and for programs.

Only what is public: parameters, sizes, the privacy claim in words, bounds, costs, and a commitment
to the structure.  Not in it: seeds, trees, true numbers of accounts or transactions, labels.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import numpy as np
from pydantic import ConfigDict, ValidationError

from pv4fad import __version__
from pv4fad.errors import ParameterError, StoreError
from pv4fad.forest.validated import ValidatedModel
from pv4fad.he.noise import FAILURE_BITS
from pv4fad.parties.bank_release import UNIT
from pv4fad.protocol.parameters import LOG2_LAYERS, LOG2_WRAP, RunParameters
from pv4fad.runs.meter import PhaseCost, Traffic

VERSION: Literal[1] = 1

SCORING_IS_OUTSIDE = (
    "Scoring is outside the ε claim: for an account that the payment network never scores, its view"
    " is as private as stated; for one that it scores, it also learns a function of the account's"
    " current flag."
)


class Privacy(ValidatedModel):
    """ε and exactly what it means."""

    epsilon: str
    sensitivity: int
    unit: str
    noise: str
    honest_banks: int
    claim: str
    outside_the_claim: str


class CircuitSummary(ValidatedModel):
    """The static bound of one circuit of ciphertexts."""

    log2_noise: float
    log2_flood: int
    log2_distance: float
    ciphertexts: int
    """How many are sanitised in training."""


class Bounds(ValidatedModel):
    """What can go wrong by chance, as log2 of upper bounds on the probability or distance."""

    log2_distance: float
    """Statistical distance of everything sanitised in training from uniform."""
    log2_false_match: float
    log2_wrap: float
    """A noisy sum leaves the range of the plaintext modulus."""
    log2_placement_failure: float
    """The accounts of some table do not fit its bins; the run aborts."""
    log2_too_many_layers: float
    """A bin of a bank holds more accounts than planned for; the run aborts."""
    log2_decryption_failure: float
    circuits: dict[str, CircuitSummary]


class Sizes(ValidatedModel):
    """The public sizes that follow from the parameters."""

    banks: int
    trees: int
    groups: int
    sums: int
    red_leaves: int
    plain_modulus: int
    largest_sum: int
    blocks: dict[str, int]
    """Blocks of 16384 bins of each table."""


class RunDocument(ValidatedModel):
    """The content of run.json."""

    format: Literal["pv4fad run"] = "pv4fad run"
    version: Literal[1] = VERSION
    program: str = __version__
    state: Literal["unfinished", "finished"]
    run_id: str
    begun: datetime
    finished: datetime | None = None
    parameters: RunParameters
    sizes: Sizes
    privacy: Privacy
    bounds: Bounds
    structure_commitment: str
    """SHA-256 over the forest and a nonce that only the payment network holds."""
    phases: tuple[PhaseCost, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    @classmethod
    def of_new_run(
        cls, parameters: RunParameters, commitment: bytes, begun: datetime
    ) -> RunDocument:
        """Before the first message."""
        return cls(
            state="unfinished",
            run_id=parameters.run_id,
            begun=begun,
            parameters=parameters,
            sizes=_sizes(parameters),
            privacy=_privacy(parameters),
            bounds=_bounds(parameters),
            structure_commitment=commitment.hex(),
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> RunDocument:
        """A document as it was written; StoreError if it is damaged or of another version."""
        try:
            return cls.model_validate_json(text)
        except (ValidationError, ParameterError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise StoreError(
                f"{where} is damaged, or of another version than {VERSION}: {problem}"
            ) from None

    def with_outside_the_claim(self, text: str) -> RunDocument:
        """Says once more what the claim does not cover."""
        outside = self.privacy.outside_the_claim
        if text in outside:
            return self
        privacy = self.privacy.model_copy(update={"outside_the_claim": f"{outside}  {text}"})
        return self.model_copy(update={"privacy": privacy})

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


def _sizes(parameters: RunParameters) -> Sizes:
    sizes = parameters.sizes
    return Sizes(
        banks=len(parameters.banks),
        trees=sizes.n_trees,
        groups=sizes.n_groups,
        sums=sizes.n_sums,
        red_leaves=sizes.n_leaves,
        plain_modulus=parameters.plain_modulus,
        largest_sum=parameters.largest_sum,
        blocks={plan.table_id: plan.layout.n_blocks for plan in parameters.tables},
    )


def _privacy(parameters: RunParameters) -> Privacy:
    return Privacy(
        epsilon=parameters.epsilon,
        sensitivity=parameters.sensitivity,
        unit=UNIT,
        noise=parameters.noise,
        honest_banks=parameters.honest_banks,
        claim=_claim(parameters),
        outside_the_claim=SCORING_IS_OUTSIDE,
    )


def _claim(parameters: RunParameters) -> str:
    epsilon, delta = parameters.epsilon, parameters.sensitivity
    if epsilon == "none":
        return (
            "None: there is no noise, the labels are those of exact counts, and they can reveal"
            " any single account record.  For tests and demonstrations only."
        )
    noise = {
        "per-bank": "Every bank adds all of the noise, so it holds whatever the others do.",
        "distributed": "The banks add the noise together; it holds as long as at least"
        f" {parameters.honest_banks} of the {len(parameters.banks)} banks add their noise and"
        " keep it to themselves.",
    }[parameters.noise]
    return (
        f"What training reveals is {epsilon}-differentially private, for the whole forest"
        f" together.  Unit: {UNIT}.  One such record moves all sums together by at most"
        f" Δ = {delta}, and every sum carries discrete Laplace noise with"
        f" α = exp(−{epsilon}/{delta}).  {noise}  The claim is computational (it needs the"
        " encryption), plus a statistical distance of"
        f" 2^{parameters.log2_distance:.1f} for all sanitised ciphertexts.  Runs add up; the"
        " ledger of a bank counts those of the folder it is in."
    )


def _bounds(parameters: RunParameters) -> Bounds:
    n_sanitised = parameters.n_sanitised
    failures = [plan.layout.log2_failure() for plan in parameters.tables]
    return Bounds(
        log2_distance=parameters.log2_distance,
        log2_false_match=parameters.log2_false_match,
        log2_wrap=LOG2_WRAP,
        log2_placement_failure=float(np.logaddexp2.reduce(failures)),
        log2_too_many_layers=LOG2_LAYERS,
        log2_decryption_failure=-FAILURE_BITS,
        circuits={
            name: CircuitSummary(
                log2_noise=bound.noise_bits,
                log2_flood=bound.flood.range_bits,
                log2_distance=-bound.distance_bits,
                ciphertexts=n_sanitised[name],
            )
            for name, bound in parameters.bounds.items()
            if name in n_sanitised
        },
    )
