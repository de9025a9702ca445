"""A self-contained HTML file: no script, no outside request, one style by its hash."""

from __future__ import annotations

import base64
import hashlib

from pv4fad.report.markup import Content, tag
from pv4fad.report.style import page_style


def html_file(title: str, *body: Content) -> str:
    """The whole file.

    Its Content-Security-Policy allows one style, by its hash, and nothing else: should text ever
    get through as markup, a browser would still neither run nor fetch anything.
    """
    style = page_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"
