"""The package as a user installs it: what it imports is declared, what it reads is in the wheel.

The development environment also holds Flower's dependencies, which would hide one of ours that is
not declared.  Here a fresh interpreter sees our wheel, and of that environment only what the wheel
declares, directly or through others.  The wheel is that of `make dist` if PV4FAD_WHEEL names it.
"""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pv4fad import __version__

ROOT = Path(__file__).parent.parent
SETUP = "import sys; sys.path[:0] = {folders!r}\n"
IMPORT_ALL = """
import importlib, pkgutil, pv4fad
failed = []
for module in pkgutil.walk_packages(pv4fad.__path__, "pv4fad."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        # Flower, Ray and the service are extras, and only their own modules may need them.
        of_flower = ".flower" in module.name and error.name == "flwr"
        extra = ("fastapi", "httptools", "starlette", "uvicorn")
        of_service = module.name.startswith("pv4fad.service.") and error.name in extra
        of_ray = ".workers.ray_" in module.name and error.name == "ray"
        if not (of_flower or of_service or of_ray):
            failed.append(f"{module.name}: {error}")
    else:
        print(module.name)
sys.exit("\\n".join(failed) or 0)
"""
DRAW = """
from pv4fad.report.canvas import Figure, Label
from pv4fad.report.render import page_style, render_drawing
print(len(page_style()), render_drawing(Figure("name", "title", "words", 10, (Label(1, 2, "x"),))))
"""
VERSION = """
from pv4fad.__main__ import main
sys.argv = ["pv4fad", "--version"]
main()
"""
BENCH = """
from pv4fad.__main__ import main
sys.argv = ["pv4fad", "bench", "match"]
main()
"""


def declared(requirements: list[str], extras: set[str], found: dict[str, Path]) -> dict[str, Path]:
    """The installed folder of each distribution that these requirements lead to, by its name."""
    for line in requirements:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            try:
                installed = distribution(name)
            except PackageNotFoundError:
                pytest.fail(f"{name} is declared and not installed: run make env")
            found[name] = Path(str(installed.locate_file("")))
            declared(installed.requires or [], requirement.extras, found)
    return found


def link_files(name: str, site: Path, folder: Path) -> None:
    for file in distribution(name).files or ():
        top = file.parts[0]
        if top != ".." and not (folder / top).exists():
            (folder / top).symlink_to(site / top)


@pytest.fixture(scope="module")
def run_bare(tmp_path_factory):
    """Runs a program that sees the standard library, our wheel, and what that declares."""
    package, dependencies = (tmp_path_factory.mktemp(name) for name in ("package", "dependencies"))
    wheel = os.environ.get("PV4FAD_WHEEL")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    built = subprocess.run(
        [*install, "--disable-pip-version-check", "--target", str(package), wheel or str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        if "No matching distribution found for hatchling" in built.stderr:
            pytest.skip("no package index here to get the build tool hatchling from")
        pytest.fail(built.stderr)
    (metadata,) = package.glob("pv4fad-*.dist-info/METADATA")
    prefix = "Requires-Dist: "
    lines = [line for line in metadata.read_text().splitlines() if line.startswith(prefix)]
    for name, site in declared([line.removeprefix(prefix) for line in lines], set(), {}).items():
        link_files(name, site, dependencies)
    start = SETUP.format(folders=[str(package), str(dependencies)])

    def run(program: str) -> subprocess.CompletedProcess[str]:
        # -I and -S: neither PYTHONPATH nor the packages of this environment.
        command = [sys.executable, "-I", "-S", "-c", start + program]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=package, timeout=600
        )

    return run


def test_every_module_can_be_imported_with_the_declared_dependencies_only(run_bare):
    result = run_bare(IMPORT_ALL)
    assert result.returncode == 0, result.stderr
    assert {"pv4fad.cli.main", "pv4fad.protocol.parameters"} <= set(result.stdout.split())


def test_an_undeclared_dependency_would_be_noticed(run_bare):
    result = run_bare("import pytest")
    assert "No module named 'pytest'" in result.stderr


def test_templates_and_styles_are_in_the_wheel(run_bare):
    result = run_bare(DRAW)
    assert result.returncode == 0, result.stderr
    assert "</svg>" in result.stdout


def test_the_wheel_knows_its_commit_without_git(run_bare):
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        pytest.skip("these sources are not a git repository")
    said = run_bare(f"import os; os.environ['PATH'] = ''\n{VERSION}").stdout
    assert said.startswith(f"pv4fad {__version__}, commit {asked.stdout.strip()}")
    assert re.search(r", built on \d{4}-\d\d-\d\d\n$", said)


def test_benchmarks_are_not_in_the_wheel_and_the_command_says_where_they_are(run_bare):
    result = run_bare(BENCH)
    assert result.returncode == 2
    assert "clone the repository" in " ".join(result.stderr.split())


def test_the_ten_lines_run_from_a_clean_install(run_bare, tmp_path):
    """As the quick start shows them, with the data that it makes up."""
    page = (ROOT / "docs" / "use" / "quickstart.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = [f"import os; os.chdir({str(tmp_path)!r})", *blocks, "print(alerts.columns)"]
    result = run_bare("\n".join(program))
    assert result.returncode == 0, result.stderr
    assert "['MessageId', 'Score', 'Level', 'Reasons']" in result.stdout
    assert (tmp_path / "run" / "run.json").is_file()
