"""Build what is released, prove that it installs and works, and say what is in it: `make dist`.

    dist/pv4fad-VERSION-py3-none-any.whl
    dist/pv4fad-VERSION.tar.gz          sources, from which the wheel was built
    dist/pv4fad-VERSION.cdx.json        what a clean environment with the wheel holds (CycloneDX)
    dist/constraints.txt                the versions that were tested together
    dist/SHA256SUMS                     of all of these

Built from the last commit, in clones, twice: with another folder, umask and time zone the bytes
must be the same.  The clean environment has the Python of this one.  docs/operate/releases.md
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = "[service,pkcs11]"
"""What an operator installs, and the container image holds."""


def run(words: list[str | Path], **settings: object) -> str:
    """The output of a program; its failure is ours."""
    done = subprocess.run(  # noqa: S603
        [str(word) for word in words],
        text=True,
        capture_output=True,
        check=False,
        **settings,  # type: ignore[call-overload]
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"
        sys.exit(f"{said}make dist: this failed: {' '.join(map(str, words))}")
    return str(done.stdout).rstrip()


def require_no_changes() -> None:
    changes = run(["git", "status", "--porcelain"], cwd=ROOT)
    if changes:
        sys.exit(f"make dist builds a commit. Commit or remove these changes first:\n{changes}")


def build(folder: Path, epoch: str, *, umask: int, zone: str) -> dict[str, bytes]:
    """The sdist, and the wheel that it makes, from a clone in this folder."""
    clone, out = folder / "clone", folder / "out"
    run(["git", "clone", "--quiet", ROOT, clone])
    settings = {"env": {**os.environ, "SOURCE_DATE_EPOCH": epoch, "TZ": zone}, "umask": umask}
    run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out],
        cwd=clone,
        **settings,
    )
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run([*pip, "-w", out, *out.glob("*.tar.gz")], **settings)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def build_twice(work: Path, epoch: str) -> dict[str, bytes]:
    built = build(work / "one", epoch, umask=0o022, zone="UTC")
    again = build(work / "two" / "deeper", epoch, umask=0o077, zone="Pacific/Auckland")
    if built != again:
        names = sorted(name for name in {*built, *again} if built.get(name) != again.get(name))
        sys.exit(f"make dist: two builds of the same commit differ: {', '.join(names)}")
    return built


def install_clean(wheel: Path, folder: Path) -> Path:
    """A new environment that holds the wheel and what that needs, not even pip."""
    run([sys.executable, "-m", "venv", "--without-pip", folder])
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--python",
        folder / "bin" / "python",
    ]
    run([*pip, "install", "--no-compile", "-c", CONSTRAINTS, f"{wheel}{EXTRAS}"])
    return folder / "bin"


def smoke(commands: Path, elsewhere: Path, expected: str) -> None:
    """The installed command says what it is, and private counts come out right."""
    bare = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    settings = {"cwd": elsewhere, "env": {**bare, "PATH": str(commands)}}
    said = run([commands / "pv4fad", "--version"], **settings)
    if said != expected:
        sys.exit(f"make dist: the installed command says {said!r}, not {expected!r}")
    example = run([commands / "pv4fad", "example"], **settings)
    if "a table has room for them" not in example:
        sys.exit(f"make dist: `pv4fad example` ended early:\n{example}")


def write_sbom(commands: Path, path: Path, version: str, epoch: str) -> int:
    """What the environment holds; returns how many packages that is."""
    tool = [Path(sys.executable).parent / "cyclonedx-py", "environment", "--output-reproducible"]
    document = json.loads(
        run(
            [*tool, "--pyproject", ROOT / "pyproject.toml", commands / "python"],
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        )
    )
    document["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/pv4fad@{version}"}
    text = json.dumps(document, indent=2) + "\n"
    if "file:" in text:
        sys.exit("make dist: the SBOM names a folder of this machine")
    path.write_text(text, encoding="utf-8")
    return len(document["components"])


def write_sums(folder: Path) -> None:
    sums = {path.name: hashlib.sha256(path.read_bytes()) for path in sorted(folder.iterdir())}
    lines = [f"{sum_.hexdigest()}  {name}\n" for name, sum_ in sums.items()]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    require_no_changes()
    commit, epoch = run(["git", "log", "-1", "--format=%H %ct"], cwd=ROOT).split()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        out = work / "dist"
        out.mkdir()
        print("Building twice ...")
        for file, content in build_twice(work, epoch).items():
            (out / file).write_bytes(content)
        (wheel,) = out.glob("*.whl")
        version = wheel.name.split("-")[1]
        print(f"The same bytes both times. Installing {wheel.name} into a clean environment ...")
        commands = install_clean(wheel, work / "clean")
        day = time.strftime("%Y-%m-%d", time.gmtime(int(epoch)))
        smoke(commands, work, f"pv4fad {version}, commit {commit}, built on {day}")
        n_packages = write_sbom(commands, out / f"pv4fad-{version}.cdx.json", version, epoch)
        shutil.copy(CONSTRAINTS, out)
        write_sums(out)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(out, ROOT / "dist")
    print(f"The installed command works. {n_packages} packages in the SBOM.")
    print((ROOT / "dist" / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    main()
