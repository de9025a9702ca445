"""The figures of one process: what it counts, and sources that are asked when somebody reads.

Threads count whenever they like.  A source is called by the thread of the reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from pv4fad import errors
from pv4fad.metrics.catalogue import ERRORS, Metric

Source = Callable[[], Iterable[Family]]
"""Makes values when they are read."""
ERROR_KINDS = tuple(sorted(name for name, kind in vars(errors).items() if isinstance(kind, type)))
UNEXPECTED = "unexpected"


class Figures(Collector):
    """Of one party's process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[Metric, dict[tuple[str, ...], float]] = {}
        self._sources: list[Source] = []
        self.problem: Callable[[], str] = lambda: ""
        """Why the process cannot do its work now; nothing if it can."""
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for kind in (*ERROR_KINDS, UNEXPECTED):
            self.count(ERRORS, kind, by=0)
        ProcessCollector(registry=self._registry)  # of Linux only; elsewhere it shows nothing

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """So many more; with 0 the counter is there before anything happens."""
        with self._lock:
            values = self._values.setdefault(metric, {})
            values[labels] = values.get(labels, 0) + by

    def announce(self, *metrics: Metric) -> None:
        """Show that they exist, before they have a value."""
        with self._lock:
            for metric in metrics:
                self._values.setdefault(metric, {})

    def failed(self, error: BaseException) -> None:
        """An error, by its kind: the text of it is for logs."""
        kinds = (kind.__name__ for kind in type(error).__mro__)
        known = (kind for kind in kinds if kind in ERROR_KINDS)
        self.count(ERRORS, next(known, UNEXPECTED))

    def note(self, metric: Metric, *labels: str, value: float) -> None:
        """The value from now on."""
        with self._lock:
            self._values.setdefault(metric, {})[labels] = value

    def note_time(self, metric: Metric, *labels: str) -> None:
        """That it happened just now."""
        self.note(metric, *labels, value=time.time())

    def add_source(self, source: Source) -> None:
        with self._lock:
            self._sources.append(source)

    def text(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Family]:
        return ()  # sources are not asked before somebody reads

    def collect(self) -> Iterator[Family]:
        with self._lock:
            values = {metric: dict(found) for metric, found in self._values.items()}
            sources = list(self._sources)
        for metric, found in values.items():
            yield metric.by(found)
        for source in sources:
            yield from source()
