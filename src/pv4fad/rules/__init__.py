"""A holder's own rules: how the columns of its table decide the class of a record.

    [[rules]]
    class = "blocked"
    column = "Status"
    in = ["frozen", "closed"]

    [[rules]]
    class = "watch"
    all = [{ column = "Rating", at_least = 7, below = 9 }, { column = "Country", missing = true }]

The first rule that matches decides; a record that no rule matches is of the first class of the
schema, the ordinary one.  A missing value satisfies `missing = true` and nothing else.

Rules stay with their holder: they are never sent, and only the class of a record enters a run.  A
class depends on the record alone; the privacy claim rests on that.
"""

from pv4fad.rules.conditions import Condition
from pv4fad.rules.rules import Rule, Rules, read_rules, rules_of

__all__ = ["Condition", "Rule", "Rules", "read_rules", "rules_of"]
