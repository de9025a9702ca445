"""What the tests of the report put on a page, and how they read it."""

from html.parser import HTMLParser

PASSPHRASE = "correct horse battery"
HOSTILE = (
    '"><script>document.title="owned"</script><img src=https://example.org/x onerror=a()>'
    "{0} {no} }{"
)
LONG = "M" * 3000
FIGURES = {"precision-recall", "training", "training-bytes", "scoring", "scoring-bytes"}


class Seen(HTMLParser):
    """Elements, attributes and text as a reader of HTML takes them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.words += data
