"""The look of figures and pages: light or dark as the reader's system is, phone to laptop.

No colour carries a meaning alone: curves differ in their dashes, bars have their label on them.
"""

from __future__ import annotations

from pv4fad.report.markup import Markup

COLOURS = Markup("""
:root {
  color-scheme: light dark;
  --ground: #ffffff; --raised: #f4f6f8; --ink: #1b2430; --soft: #55606e; --line: #d5dbe1;
  --s0: #1f6fb4; --s1: #b8560f; --s2: #6b7683; --alarm: #b3261e; --good: #1d7a46;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12171d; --raised: #1b222a; --ink: #e6ebf0; --soft: #a2adb9; --line: #38434e;
    --s0: #6db3f0; --s1: #f0a35e; --s2: #98a3af; --alarm: #ff8f86; --good: #6fd39b;
  }
}
""")

CHART = Markup("""
.chart { display: block; width: 100%; height: auto; font: 11px system-ui, sans-serif; }
.chart text { fill: var(--ink); }
.chart .tick { fill: var(--soft); font-size: 10px; }
.chart .value { font-weight: 600; }
.chart .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.chart .line { stroke-width: 2; fill: none; stroke-linejoin: round; }
.chart .line.s0 { stroke: var(--s0); }
.chart .line.s1 { stroke: var(--s1); stroke-dasharray: 6 3; }
.chart .line.s2 { stroke: var(--s2); stroke-dasharray: 2 3; }
.chart .bar.s0, .chart .dot.s0 { fill: var(--s0); }
.chart .bar.s1, .chart .dot.s1 { fill: var(--s1); }
.chart .bar.s2, .chart .dot.s2 { fill: var(--s2); }
.chart .dot { stroke: var(--ground); stroke-width: 1.5; }
""")

STAND_ALONE = Markup(
    COLOURS + CHART + "svg.chart { background: var(--ground); max-width: 760px; margin: auto; }\n"
)
