"""What the outputs of a world call its parties and tables; part of the schema.

    [words]
    lead = "insurer"          # has the rows
    holder = "clinic"         # keeps records
    row = "claim"
    record = "patient"

A sentence is written once, with a place for each word, and every world reads it in its own words:

    words("{Lead} now knows a bit about {n:,} {records}.", n=8)

Words change nothing but texts, so parties may differ in them: they are not in a schema's digest.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated

from pydantic import Field

from pv4fad.validated import ValidatedModel

Word = Annotated[str, Field(pattern=r"^[^\W\d_][\w -]{0,31}$")]


class Words(ValidatedModel):
    """Neutral unless a schema has words of its own; each is a noun in the singular."""

    lead: Word = "lead"
    """The party with the rows."""
    holder: Word = "holder"
    """A party that keeps records."""
    row: Word = "row"
    """What is judged."""
    record: Word = "record"
    """What a holder knows something about."""
    plurals: dict[Word, Word] = Field(default_factory=dict)
    """Of words whose plural does not follow the rule, such as person: people."""

    def __call__(self, sentence: str, **values: object) -> str:
        """The sentence in these words, and with these values."""
        return sentence.format(**self.forms, **values)

    def of_file(self, text: str) -> str:
        """A sentence that was read from a file: places for words are filled, all else stays."""
        return re.sub(r"\{(\w+)\}", lambda place: self.forms.get(place[1], place[0]), text)

    @cached_property
    def forms(self) -> dict[str, str]:
        """What a sentence can have: {row}, {rows}, {a_row}; {Row}, {Rows}, {A_row}; so of all."""
        forms = {}
        for name in ("lead", "holder", "row", "record"):
            word = getattr(self, name)
            forms[name] = word
            forms[f"{name}s"] = self._plural(word)
            forms[f"a_{name}"] = f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
        return forms | {_capital(name): _capital(text) for name, text in forms.items()}

    def _plural(self, word: str) -> str:
        if word in self.plurals:
            return self.plurals[word]
        if re.search(r"[^aeiou]y$", word):
            return f"{word[:-1]}ies"
        return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
