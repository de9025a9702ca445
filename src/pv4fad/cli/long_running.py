"""How commands that run for long talk: they write a log until they end.

As JSON, nothing else is written: what is said to a person otherwise, and the error that ends a
command, are lines of the log, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pv4fad.cli.console import err
from pv4fad.errors import Pv4fadError, UserError
from pv4fad.logs import log_format, write_logs

Say = Callable[[str], None]
_log = logging.getLogger("pv4fad")


@contextmanager
def logging_as(given: str, party: str) -> Iterator[Say]:
    """Yields how to say something besides."""
    chosen = log_format(given)
    write_logs(party, chosen)
    if chosen == "text":
        yield lambda text: err.print(text, markup=False, soft_wrap=True)
        return
    try:
        yield lambda text: _log.info("%s", text)
    except Pv4fadError as error:
        _log.error("%s: %s", type(error).__name__, error)
        raise SystemExit(2 if isinstance(error, UserError) else 1) from None
    except OSError as error:
        _log.error("%s: %s", error.filename or "the system", error.strerror)
        raise SystemExit(2) from None
    except Exception:
        _log.exception("unexpected error")
        raise SystemExit(1) from None
