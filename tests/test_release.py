"""A release is what it says: version, changelog, commit, pinned versions."""

import re
import shutil
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pv4fad import __version__
from pv4fad.cli import origin

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
_RELEASE = re.compile(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)")


def released() -> list[tuple[Version, date]]:
    """Of the changelog, the newest first."""
    first, *others = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert first == "[Unreleased]"
    matches = [_RELEASE.fullmatch(one) for one in others]
    assert all(matches), "write a release as: ## [1.2.3] - 2026-12-31"
    return [(Version(one[1]), date.fromisoformat(one[2])) for one in matches if one]


def test_releases_in_the_changelog_are_sorted():
    versions, days = [one for one, _ in released()], [day for _, day in released()]
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)


def test_sections_of_the_changelog_have_the_usual_names():
    usual = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for release in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        sections = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert sections
        assert set(sections) <= usual
        assert len(set(sections)) == len(sections)


def test_the_version_is_the_newest_release_or_leads_to_the_next():
    own, newest = Version(__version__), max((one for one, _ in released()), default=Version("0"))
    assert str(own) == __version__
    if own.is_devrelease:
        assert own > newest
    else:
        assert own == newest, "a version without .dev has a heading in the changelog, with its day"


def test_the_security_page_knows_whether_there_was_a_release():
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert ("There has been no release yet" in page) == (not released())


def test_all_declared_packages_are_pinned_and_nothing_else_is_said_about_them():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins)
    pinned = [canonicalize_name(line.partition("==")[0]) for line in pins]
    assert pinned == sorted(set(pinned))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for line in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        name = canonicalize_name(Requirement(line).name)
        assert name in {*pinned, "pv4fad"}


@pytest.fixture
def repository(tmp_path):
    """A repository that holds a copy of the module, and a function that asks the copy's git."""
    folder = tmp_path / "package"
    folder.mkdir()
    shutil.copy(origin.__file__, folder)

    def git(*words: str) -> str:
        person = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        command = ["git", *person, *words]
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "--quiet", str(tmp_path))
    return folder, git


def test_a_checkout_names_its_commit_and_whether_it_was_changed(repository):
    folder, git = repository
    git("add", ".")
    git("commit", "--quiet", "-m", "all")
    assert origin.commit_of(folder) == f"commit {git('rev-parse', 'HEAD')}"
    (folder.parent / "new.py").touch()
    assert origin.commit_of(folder) == f"commit {git('rev-parse', 'HEAD')} with changes"


def test_a_repository_that_only_surrounds_the_package_is_not_its_own(repository):
    folder, git = repository
    (folder.parent / "other").touch()
    git("add", "../other")
    git("commit", "--quiet", "-m", "other")
    assert origin.commit_of(folder) == "unknown commit"


def test_no_git_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert origin.origin() == "unknown commit, from a checkout"
