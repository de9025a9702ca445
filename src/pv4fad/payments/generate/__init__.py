"""Synthetic data in the challenge format, calibrated to published facts (docs/use/generator.md)."""

from pv4fad.payments.generate.calibration import AnomalyKind
from pv4fad.payments.generate.facts import Fact, calibration_facts
from pv4fad.payments.generate.folder import (
    SCENARIO,
    STEPS,
    GeneratedFolder,
    generate,
    kinds_file,
)
from pv4fad.payments.generate.leakcheck import LEAK_LIMIT, ColumnLeak, leak_check, unexpected_leaks
from pv4fad.payments.generate.tables import (
    MIN_BANKS,
    MIN_TRANSACTIONS,
    Difficulty,
    GeneratedTables,
    Settings,
    generate_tables,
)

__all__ = [
    "LEAK_LIMIT",
    "MIN_BANKS",
    "MIN_TRANSACTIONS",
    "SCENARIO",
    "STEPS",
    "AnomalyKind",
    "ColumnLeak",
    "Difficulty",
    "Fact",
    "GeneratedFolder",
    "GeneratedTables",
    "Settings",
    "calibration_facts",
    "generate",
    "generate_tables",
    "kinds_file",
    "leak_check",
    "unexpected_leaks",
]
