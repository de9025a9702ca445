"""A tree as text, for people: documentation and the payment network's own eyes."""

from __future__ import annotations

from collections.abc import Iterator

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.structure import Forest
from pv4fad.forest.tree import BankNode, Node, Split, count_groups, count_leaves


def draw_tree(forest: Forest, tree: int) -> str:
    """One line per node: tests with their two branches, bank nodes with their one subtree."""
    first_green = sum(count_leaves(each) - count_groups(each) for each in forest.trees[:tree])
    greens = iter(range(first_green, forest.n_green))
    groups = iter(range(tree * forest.sizes.groups_per_tree, forest.sizes.n_groups))

    def lines(node: Node, below_bank: bool) -> Iterator[str]:
        match node:
            case Split(feature, cut, below, above):
                yield f"{forest.feature_names[feature]} < {cut:g} ?"
                for answer, child, bar in (("yes", below, "│"), ("no", above, " ")):
                    first, *others = lines(child, below_bank)
                    yield f"{'├' if bar != ' ' else '└'}─ {answer}: {first}"
                    yield from (f"{bar}  {line}" for line in others)
            case BankNode(condition, subtree):
                branches = " | ".join(_names(forest, one_set) for one_set in condition.sets)
                yield f"{condition.side.name.lower()} account: {branches} | rest"
                first, *others = lines(subtree, True)
                yield f"└─ {first}"
                yield from (f"   {line}" for line in others)
            case _ if below_bank:
                yield f"group {next(groups)}"
            case _:
                yield f"green leaf {next(greens)}"

    return "\n".join(lines(forest.trees[tree], False))


def _names(forest: Forest, atoms: AtomSet) -> str:
    every = [atom for family in forest.schema.families for atom in family.atoms]
    return "{" + ", ".join(every[atom] for atom in atoms) + "}"
