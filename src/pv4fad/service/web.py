"""What all pages and endpoints have in common: headers, bodies, forms, logins, errors.

Every response forbids scripts and styles other than the service's own files, framing, sniffing and
caching.  Bodies are bounded in size and time.  Nothing in a URL is a secret: a token there is
refused, so that nobody gets used to it.

Browsers send a cookie to all ports of a host, so that its name has site and port: a desk and an
inbox on one machine do not log each other out.  With TLS its name begins with `__Host-`: browsers
take no such cookie from another host, or without TLS.
"""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException as BaseHTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from pv4fad.errors import ProtocolError, UserError
from pv4fad.report.render import page_style
from pv4fad.service.access import Session, Sessions, Tokens, same

BODY_WITHIN_S = 10.0
FORM_BYTES = 16 * 2**10
_SECRETS_IN_URL = {"token", "access_token", "api_key", "key", "password", "authorization"}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_STATIC = {"desk.css": "text/css", "desk.js": "text/javascript", "icon.svg": "image/svg+xml"}

ENVIRONMENT = Environment(
    loader=ChoiceLoader([PackageLoader("pv4fad.service"), PackageLoader("pv4fad.report")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


async def read_body(request: Request, most: int) -> bytes:
    """The body, within its limits; 413, 408 or 400."""
    stated = request.headers.get("content-length", "0")
    if not stated.isdigit() or int(stated) > most:
        raise HTTPException(413, f"the body is longer than {most:,} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise HTTPException(413, f"the body is longer than {most:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body took more than {BODY_WITHIN_S:.0f} s") from None
    return bytes(body)


async def read_form(request: Request) -> dict[str, str]:
    """A form, as browsers send it."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "send a form")
    body = await read_body(request, FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise HTTPException(400, "not a well-formed form") from None


class Site:
    """Pages for people who have logged in."""

    def __init__(self, app: FastAPI, tokens: Tokens, title: str, *, tls: bool) -> None:
        self.app, self.tokens = app, tokens
        self.sessions = Sessions(is_there=lambda token: tokens.has(token, "desk"))
        self._title, self._tls = title, tls
        name = re.sub("[^a-z0-9]+", "-", title.lower())
        self._cookies = f"{'__Host-' if tls else ''}pv4fad-{name}"
        app.add_middleware(_Guard, tls=tls)
        app.add_exception_handler(RequestValidationError, _bad_request)
        app.add_exception_handler(BaseHTTPException, self._failed)
        app.add_exception_handler(UserError, self._refused)
        app.add_exception_handler(ProtocolError, self._refused)
        app.get("/static/{name}")(_static)
        app.get("/login")(self._login_page)
        app.post("/login")(self._login)
        app.post("/logout")(self._logout)

    def page(
        self, request: Request, template: str, status: int = 200, **values: object
    ) -> Response:
        """A page; `session` is None where nobody needs to log in."""
        session = self.find_session(request)
        text = ENVIRONMENT.get_template(template).render(
            site=self._title, session=session, path=request.url.path, **values
        )
        return HTMLResponse(text, status)

    def find_session(self, request: Request, *, is_used: bool = True) -> Session | None:
        """If it has not ended."""
        return self.sessions.get(request.cookies.get(self._cookie(request)), is_used=is_used)

    def session(self, request: Request, *, is_used: bool = True) -> Session:
        """Of somebody who has logged in; others are sent to the login."""
        session = self.find_session(request, is_used=is_used)
        if session is None:
            raise HTTPException(303, headers={"location": "/login"})
        return session

    async def form(self, request: Request) -> tuple[Session, dict[str, str]]:
        """Of somebody who has logged in, from a page of this service."""
        session = self.find_session(request)
        if session is None:
            raise HTTPException(403, "log in first")
        form = await read_form(request)
        if not same(form.pop("csrf", ""), session.csrf):
            raise HTTPException(403, "the form is not from this session: reload the page")
        return session, form

    def _login_page(self, request: Request) -> Response:
        nonce = self.sessions.begin_login()
        form = self.sessions.login_form(nonce)
        response = self.page(request, "login.html", form=form, wrong=False)
        self._set_cookie(response, self._login_cookie(request), nonce)
        return response

    async def _login(self, request: Request) -> Response:
        form = await read_form(request)
        nonce = request.cookies.get(self._login_cookie(request), "")
        if not nonce or not same(form.get("csrf", ""), self.sessions.login_form(nonce)):
            raise HTTPException(403, "the form is not from this browser: reload the page")
        token = form.get("token", "").strip()
        who = self.tokens.who(token, "desk")
        if who is None:
            again = self.sessions.login_form(nonce)
            return self.page(request, "login.html", 403, form=again, wrong=True)
        response = RedirectResponse("/", 303)
        self._set_cookie(response, self._cookie(request), self.sessions.begin(who, token))
        self._set_cookie(response, self._login_cookie(request), "", 0)
        return response

    async def _logout(self, request: Request) -> Response:
        await self.form(request)
        cookie = self._cookie(request)
        self.sessions.end(request.cookies[cookie])
        response = RedirectResponse("/login", 303)
        self._set_cookie(response, cookie, "", 0)
        return response

    def _cookie(self, request: Request) -> str:
        """The name of a session's cookie, at the port where this request came in."""
        _, port = request.scope["server"]
        return f"{self._cookies}-{port}"

    def _login_cookie(self, request: Request) -> str:
        return f"{self._cookie(request)}-login"

    def _set_cookie(
        self, response: Response, name: str, value: str, max_age_s: int | None = None
    ) -> None:
        """Until the browser ends, unless `max_age_s` is given; 0 deletes it."""
        response.set_cookie(
            name,
            value,
            max_age_s,
            httponly=True,
            samesite="strict",
            secure=self._tls,
            path="/",
        )

    async def _failed(self, request: Request, error: Exception) -> Response:
        """An error, as a page for browsers and as JSON for programs."""
        found = error if isinstance(error, BaseHTTPException) else BaseHTTPException(500)
        if found.status_code == 303:
            return Response(status_code=303, headers=found.headers)
        if "text/html" in request.headers.get("accept", ""):
            return self.page(
                request, "failed.html", found.status_code, why=found.detail, title="Not possible"
            )
        return JSONResponse({"error": found.detail}, found.status_code, headers=found.headers)

    async def _refused(self, request: Request, error: Exception) -> Response:
        return await self._failed(request, BaseHTTPException(422, str(error)))


class _Guard:
    """Headers of every response; refuses secrets in a URL and requests from other sites."""

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        own = _HEADERS | ({"strict-transport-security": "max-age=31536000"} if tls else {})
        self._headers = [(name.encode(), value.encode()) for name, value in own.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message["headers"])
                if not any(name == b"cache-control" for name, _ in given):
                    given.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*given, *self._headers]}
            await send(message)

        problem = _problem(scope)
        if problem is not None:
            await JSONResponse({"error": problem}, 400)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _problem(scope: Scope) -> str | None:
    query = scope["query_string"].decode("latin-1")
    if len(query) > 4_000:
        return "the query is too long"
    names = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
    if names & _SECRETS_IN_URL:
        return "no secret belongs into a URL: send the token in the header Authorization"
    headers = dict(scope["headers"])
    if scope["method"] == "POST" and headers.get(b"sec-fetch-site") in (
        b"cross-site",
        b"same-site",
    ):
        return "a form of another site"
    return None


async def _static(name: str) -> Response:
    """Named files only: the name never reaches a file system."""
    if name not in _STATIC:
        raise HTTPException(404, "not found")
    return Response(
        static_file(name), media_type=_STATIC[name], headers={"cache-control": "max-age=300"}
    )


def static_file(name: str) -> str:
    """The style begins with that of reports."""
    text = (files("pv4fad.service") / "templates" / name).read_text(encoding="utf-8")
    return page_style() + text if name == "desk.css" else text


async def _bad_request(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "not found"}, 404)


def new_app(lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """Without the pages that FastAPI adds: they load scripts from elsewhere."""
    return FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
