"""An engine that decides from the payment network's own data alone, as if no account were matched.

An account that a bank could have decided about is taken as ordinary, and the decision says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from pv4fad.evidence.judgement import nothing_known
from pv4fad.lead.judging import JudgedPayments, Judging
from pv4fad.lead.rows import NewRows
from pv4fad.service.decisions import Decided, How


@dataclass(frozen=True)
class LocalEngine:
    """Judges payments without asking."""

    judging: Judging = field(repr=False)

    async def decide(self, payments: NewRows) -> AsyncIterator[Decided]:
        yield await asyncio.to_thread(self.judge, payments)

    def judge(self, payments: NewRows) -> Decided:
        """All payments of a batch."""
        judged = JudgedPayments(self.judging, payments)
        known = nothing_known(len(payments.keys), self.judging.model)
        wanted = np.asarray(judged.judgement.raising.any(axis=(1, 2)))
        how: list[How] = ["account not yet matched" if one else "local only" for one in wanted]
        table = judged.table(judged.judgement.decisions(known))
        return Decided(np.arange(len(payments)), table, tuple(how))
