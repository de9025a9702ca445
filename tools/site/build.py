"""Build the docs as a site that works offline, into site/: `make site`.

The pages are those that GitHub shows, in the same folders, so that their links to each other and to
other files of the repository are right as they are.  The navigation is docs/README.md's.  The build
ends with an error at a warning, a dead link, anything that is fetched from elsewhere, and a page
that says something else than on GitHub (tools/site/check.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from check import problems

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INDEX = Path("docs/README.md")
DECISIONS = Path("docs/understand/decisions/README.md")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#]+)(?:#[^)]*)?\)")
FRAME = "worker_in_a_frame.js"
ELSEWHERE = re.compile(r'"https://unpkg\.com/iframe-worker/shim"')


def local_links(text: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Text and target, within the repository, of the links in the text of a page in this folder."""
    for shown, target in LINK.findall(text):
        if not re.match(r"[a-z]+:", target):
            yield shown, (ROOT / folder / target).resolve().relative_to(ROOT)


def navigation() -> list[dict[str, object]]:
    """The start page, then a section for each reader, as docs/README.md has them."""
    entries: list[dict[str, object]] = [{"PV4FAD": "README.md"}, {"All pages": str(INDEX)}]
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = re.sub(r"^You (are an? |want to )", "", section.splitlines()[0])
        links = local_links(section, INDEX.parent)
        entries.append({_title(heading): [_entry(shown, page) for shown, page in links]})
    return entries


def _entry(shown: str, page: Path) -> dict[str, object]:
    if page != DECISIONS:
        return {_title(shown): str(page)}
    below = local_links((ROOT / DECISIONS).read_text(encoding="utf-8"), DECISIONS.parent)
    return {_title(shown): [str(page), *({_title(one): str(target)} for one, target in below)]}


def _title(text: str) -> str:
    return text[0].upper() + text[1:]


def stage(folder: Path) -> list[Path]:
    """Copy the pages, and what they link to; returns the pages."""
    pages = [path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages}
    linked = {to for page in pages for _, to in local_links(texts[page], page.parent)}
    for path in {*pages, *linked}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    for page, text in texts.items():
        # GitHub wants a bar in a table escaped also in code, and does not show the backslash.
        cells = re.sub(r"^\|.*$", lambda row: _bars(row[0]), text, flags=re.MULTILINE)
        (folder / page).write_text(cells, encoding="utf-8")
    shutil.copy(HERE / "extra.css", folder)
    shutil.copy(HERE / FRAME, folder)
    return pages


def _bars(row: str) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row)


def finish(site: Path) -> None:
    """Nothing from elsewhere, nothing for a server, and search also where there is one."""
    for name in ("404.html", "sitemap.xml"):
        (site / name).unlink()
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        page.write_text(ELSEWHERE.sub(f'"{up}{FRAME}"', text), encoding="utf-8")
    index = (site / "search.js").read_text(encoding="utf-8")
    (site / "search.json").write_text(index[index.index("{") :].rstrip(";\n"), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pages = stage(work / "pages")
        settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
        entries = json.dumps(navigation(), ensure_ascii=False).replace('": ', '" = ')
        settings = settings.replace("nav = []", f"nav = {entries}")
        (work / "zensical.toml").write_text(settings, encoding="utf-8")
        zensical = Path(sys.executable).parent / "zensical"
        built = subprocess.run([zensical, "build", "--strict"], cwd=work, check=False)  # noqa: S603
        if built.returncode:
            sys.exit("make site: see the warnings above")
        finish(work / "site")
        if found := problems(work / "site", ROOT, pages):
            sys.exit("\n".join(["make site:", *found]))
        shutil.rmtree(ROOT / "site", ignore_errors=True)
        shutil.copytree(work / "site", ROOT / "site")
    print(f"{len(pages)} pages: open site/index.html")


if __name__ == "__main__":
    main()
