"""The tests that compute with floating point once more, on the kernels of another processor.

OpenBLAS (in the wheels of numpy and scipy) adds up in another order on another processor, so the
last digits differ, and an iterative optimiser may stop somewhere else.  A test that pins such
digits passes on one machine and fails on the next; here it fails at once.

Fails only if tests fail: where no other kernel can be had it says so and ends well.
"""
# ruff: noqa: S603, T201

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/detection", "tests/evaluation", "tests/evidence", "tests/benchmarks")
CANDIDATES = ("Haswell", "Nehalem")  # with AVX2 and without
VARIABLE = "OPENBLAS_CORETYPE"
# Multiplies and solves first: a kernel that this processor cannot run ends the process.
PROBE = """
import numpy, scipy.linalg, threadpoolctl
square = numpy.eye(300) + numpy.ones((300, 300)) @ numpy.ones((300, 300))
scipy.linalg.solve(square, square)
libraries = threadpoolctl.threadpool_info()
print(*{one["architecture"] for one in libraries if one["internal_api"] == "openblas"})
"""


def kernels(environment: dict[str, str]) -> set[str]:
    """Those that OpenBLAS really uses in a new process; none if it is not used, or crashes."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False
    )
    return set(done.stdout.split()) if done.returncode == 0 else set()


def other_environment() -> dict[str, str] | str:
    """The environment of the second run, or why there is none."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return f"the kernels to choose from are those of x86_64, this is {platform.machine()}"
    own = kernels(dict(os.environ))
    if not own:
        return "numpy and scipy do not use OpenBLAS here, or do not say which kernels"
    for core in CANDIDATES:
        environment = os.environ | {VARIABLE: core}
        if core not in own and kernels(environment) == {core}:
            print(f"OpenBLAS uses {', '.join(sorted(own))} here; once more with {VARIABLE}={core}:")
            return environment
    return f"OpenBLAS uses {', '.join(sorted(own))} here, and {VARIABLE} does not change that"


def main() -> int:
    environment = other_environment()
    folders = [folder for folder in TESTS if (ROOT / folder).is_dir()]
    if isinstance(environment, str) or not folders:
        reason = environment if isinstance(environment, str) else "there are no such tests"
        print(f"Tests with another BLAS are left out: {reason}.")
        return 0
    print(*folders, flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile", *folders]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
