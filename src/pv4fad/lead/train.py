"""Train: propose a prepared run, carry it through, and note what it has cost after every message.

    document = new_document(new, meter)                    nothing has been sent yet
    document = train(federation, new, document, meter)     the model is complete

The same for all parties on one machine and for a deployed payment network; `keep` puts the document
where it belongs.  Killed or failed, `resume` carries on where the run was: nothing is drawn again,
nothing is spent twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from pv4fad.errors import ProtocolError
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.prepare import NewRun
from pv4fad.parties.in_process import Observer
from pv4fad.parties.network_stages import is_trained
from pv4fad.protocol.wire import Header
from pv4fad.run.document import RunDocument
from pv4fad.run.meter import Meter

Keep = Callable[[RunDocument], object]


def new_document(new: NewRun, meter: Meter) -> RunDocument:
    """What is public about a run before its first message, with the cost of preparing it."""
    meter.expect_training(new.parameters)
    document = RunDocument.of_new_run(new.parameters, new.private.data_schema, datetime.now(UTC))
    return _with_costs(document, meter)


def train(
    federation: LedFederation,
    new: NewRun,
    document: RunDocument,
    meter: Meter,
    keep: Keep = lambda _: None,
) -> RunDocument:
    """From the first message to the model."""
    new.store(federation.payment_network.store)
    begin = partial(federation.train, new.parameters, new.training)
    return _carry_through(federation, document, begin, meter, keep)


def resume(
    federation: LedFederation, document: RunDocument, meter: Meter, keep: Keep = lambda _: None
) -> RunDocument:
    """From the first message that is sent again to the model."""
    meter.expect_training(document.parameters)
    return _carry_through(federation, document, federation.resume, meter, keep)


def resumed_meter(document: RunDocument, report: Callable[..., object]) -> Meter:
    """Adds to what an interrupted run has cost already."""
    return Meter(report, phases=document.phases, traffic=document.traffic)


def _carry_through(
    federation: LedFederation,
    document: RunDocument,
    begin: Callable[[Observer], None],
    meter: Meter,
    keep: Keep,
) -> RunDocument:
    def observe(message: Header, size_bytes: int) -> None:
        meter(message, size_bytes)
        keep(_with_costs(document, meter))

    begin(observe)
    meter.stop()
    if not is_trained(federation.payment_network.store, document.run_id):
        raise ProtocolError(f"run {document.run_id} came to a halt before the model was complete")
    finished = _with_costs(document, meter).model_copy(
        update={"state": "finished", "finished": datetime.now(UTC)}
    )
    keep(finished)
    return finished


def _with_costs(document: RunDocument, meter: Meter) -> RunDocument:
    return document.model_copy(update={"phases": meter.phases, "traffic": meter.traffic})
