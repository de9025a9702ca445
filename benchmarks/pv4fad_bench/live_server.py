"""The service of a payment network as `pv4fad serve`, for `pv4fad bench live` and `soak`.

    python -m pv4fad_bench.live_server FOLDER PORT

The model is one to which all answers of banks matter: every payment with an account that is not
known asks.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pv4fad.cli.serve import payment_network
from pv4fad.lead.judging import Judging


def _telling(judging: Judging) -> Judging:
    model = judging.model
    strong = dataclasses.replace(
        model, log_odds=np.full_like(model.log_odds, 9.0), share=np.full_like(model.share, 0.001)
    )
    return dataclasses.replace(judging, model=strong)


def main(folder: str, port: str) -> None:
    stored = Judging.stored

    def telling(*arguments: Any) -> Judging:
        return _telling(stored(*arguments))

    setattr(Judging, "stored", telling)  # noqa: B010
    payment_network(Path(folder), port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
