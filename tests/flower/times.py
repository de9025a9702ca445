"""A time for entries of ledgers."""

from datetime import UTC, datetime

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
