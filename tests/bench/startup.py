"""What a command costs to start, against importing its libraries: `python -m tests.bench.startup`.

CPU time (user + system) of whole processes, run in turns, so that a busy machine hits both alike.
The reference is the least that a command-line tool on typer, rich and yaml pays before it does
anything. Prints the ratio of the medians; lower is better.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

REFERENCE = [sys.executable, "-c", "import typer, rich, yaml"]
MAIN_JOB = [sys.executable, "-m", "kvplan", "size", "llama3-8b", "--ctx", "128k", "--batch", "32"]
# On a terminal: the page goes through rich, as FORCE_COLOR makes it do in a pipe too.
COLOUR = ["env", "FORCE_COLOR=1"]
SUBJECTS = {
    "size, on a terminal": [*COLOUR, *MAIN_JOB],
    "size, in a pipe": MAIN_JOB,
    "size --json": [*MAIN_JOB, "--json"],
}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_mib(command: list[str]) -> float:
    """Peak resident memory of one run."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)"
    )
    code += "; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    shown = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=True)
    return int(shown.stdout) / 1024


def main(rounds: int = 21) -> None:
    """Print one line per subject."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, command in SUBJECTS.items():
        cpu_seconds(command)  # compiles the modules once
        pairs = [(cpu_seconds(REFERENCE), cpu_seconds(command)) for _ in range(rounds)]
        reference, subject = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{name:20} {subject / reference:5.2f} x the bare imports"
            f" ({subject * 1000:.0f} ms of {reference * 1000:.0f} ms CPU,"
            f" {peak_mib(command):.1f} MiB)"
        )


if __name__ == "__main__":
    main()
