"""The endpoints for programs.

    POST /payments          one payment: a JSON object, or a pacs.008 message with one transaction
    POST /payments/batch    many: a JSON array, one object per line (NDJSON), or pacs.008 messages
    GET  /healthz           the process runs
    GET  /readyz            it takes payments
    GET  /metrics           for Prometheus

A decision comes back with 200.  A batch has one element for each payment, in order: a decision, or
`error` with a `status`.  Who accepts `application/x-ndjson` gets a line for each payment as soon as
it is decided: its number in the batch, from 1 on, and the element.

422: the payment is wrong, and the error names the field.  409: another payment with this id was
decided before.  429 or 503 with Retry-After: too much is under way, or the service is starting;
nothing was begun.  Whoever gets no answer sends the same payment again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from fastapi import HTTPException, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from pv4fad.errors import OrderError, Pv4fadError
from pv4fad.service.access import Use
from pv4fad.service.intake import Raw
from pv4fad.service.pipeline import Answer, FailedError, OverloadedError, Pipeline, Submission
from pv4fad.service.web import Site, read_body

ONE_BYTES, MANY_BYTES = 64 * 2**10, 8 * 2**20
MOST_IN_BATCH = 5_000
ANSWER_WITHIN_S = 30.0
_JSON, _LINES = "application/json", ("application/x-ndjson", "application/jsonl")
_XML = ("application/xml", "text/xml")
_TOO_LATE = "not decided in time: send the payment again"


class Api:
    """Adds its endpoints to the service."""

    def __init__(self, site: Site, pipeline: Pipeline) -> None:
        self._pipeline, self._intake, self._tokens = pipeline, pipeline.intake, site.tokens
        app = site.app
        app.post("/payments")(self._one)
        app.post("/payments/batch")(self._many)
        app.get("/healthz")(_healthz)
        app.get("/readyz")(self._readyz)
        app.get("/metrics")(self._metrics)

    async def _one(self, request: Request) -> Response:
        self._require(request, "payments")
        body = await read_body(request, ONE_BYTES)
        if _kind(request) in _XML:
            raws = await asyncio.to_thread(self._intake.many_from_xml, body, 1)
        else:
            _require_kind(request, _JSON)
            raws = [self._intake.from_json(body)]
        (answer,) = await _in_order(len(raws), self._submitted(raws))
        if isinstance(answer, str):
            return Response(answer, media_type=_JSON)
        raise HTTPException(_status(answer), str(answer), headers=_retry(answer))

    async def _many(self, request: Request) -> Response:
        self._require(request, "payments")
        body = await read_body(request, MANY_BYTES)
        kind = _kind(request)
        read: Callable[[bytes, int], list[Raw]] = self._intake.many_from_json
        if kind in _XML:
            read = self._intake.many_from_xml
        elif kind not in _LINES:
            _require_kind(request, _JSON)
        if len(body) > ONE_BYTES or kind in _XML:
            raws = await asyncio.to_thread(read, body, MOST_IN_BATCH)
        else:  # takes less time than to wait for a thread
            raws = read(body, MOST_IN_BATCH)
        submitted = self._submitted(raws)
        if _accepts_lines(request):
            lines = _lines(len(raws), submitted)
            return StreamingResponse(lines, headers={"content-type": _LINES[0]})
        parts = [_element(answer) for answer in await _in_order(len(raws), submitted)]
        return Response(f"[{','.join(parts)}]", media_type=_JSON)

    def _submitted(self, raws: list[Raw]) -> Submission:
        try:
            return self._pipeline.submit(raws)
        except OverloadedError:
            if self._pipeline.is_running:
                raise HTTPException(
                    429, "too many payments are under way", headers={"retry-after": "1"}
                ) from None
            raise _not_ready() from None

    async def _readyz(self) -> Response:
        if not self._pipeline.is_running:
            raise _not_ready()
        return PlainTextResponse("ready\n")

    async def _metrics(self, request: Request) -> Response:
        self._require(request, "metrics")
        return PlainTextResponse(self._pipeline.watch.metrics(), media_type="text/plain")

    def _require(self, request: Request, use: Use) -> None:
        """A token for this use; for payments a client certificate does as well."""
        if use == "payments" and request.scope.get("state", {}).get("certificate"):
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or self._tokens.who(token.strip(), use) is None:
            raise HTTPException(
                401,
                f"send a token for {use}: Authorization: Bearer TOKEN",
                headers={"www-authenticate": "Bearer"},
            )


async def _healthz() -> Response:
    return PlainTextResponse("alive\n")


async def _in_order(n_payments: int, submitted: Submission) -> list[Answer]:
    answers: dict[int, Answer] = {}
    try:
        async for some in submitted.answers(ANSWER_WITHIN_S):
            answers.update(some)
    except TimeoutError:
        raise HTTPException(503, _TOO_LATE, headers={"retry-after": "5"}) from None
    return [answers[position] for position in range(n_payments)]


async def _lines(n_payments: int, submitted: Submission) -> AsyncIterator[str]:
    left = set(range(n_payments))
    try:
        async for some in submitted.answers(ANSWER_WITHIN_S):
            left.difference_update(position for position, _ in some)
            yield "".join(_line(*one) for one in some)
    except TimeoutError:
        late = FailedError(_TOO_LATE)
        yield "".join(_line(position, late) for position in sorted(left))


def _line(position: int, answer: Answer) -> str:
    return f"[{position + 1},{_element(answer)}]\n"


def _element(answer: Answer) -> str:
    """A decision as it is kept, or what is wrong."""
    if isinstance(answer, str):
        return answer
    return json.dumps({"error": str(answer), "status": _status(answer)})


def _kind(request: Request) -> str:
    return _plain(request.headers.get("content-type", ""))


def _accepts_lines(request: Request) -> bool:
    return any(_plain(one) in _LINES for one in request.headers.get("accept", "").split(","))


def _plain(media_type: str) -> str:
    """Without parameters."""
    return media_type.partition(";")[0].strip().lower()


def _require_kind(request: Request, kind: str) -> None:
    if _kind(request) != kind:
        wanted = f"{kind}, or application/xml for pacs.008"
        raise HTTPException(415, f"content type: send {wanted}")


def _status(error: Exception) -> int:
    if isinstance(error, OrderError):
        return 409
    return 422 if isinstance(error, Pv4fadError) else 503


def _retry(error: Exception) -> dict[str, str] | None:
    return {"retry-after": "1"} if _status(error) == 503 else None


def _not_ready() -> HTTPException:
    return HTTPException(503, "the service is starting or ending", headers={"retry-after": "5"})
