"""`kvplan check --facts`: what was read of each engine, and from where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvplan.printable import visible
from kvplan.units import format_count

if TYPE_CHECKING:
    from kvplan.check.facts import FileFacts
    from kvplan.deployments.facts import Deployment, Fact

_SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def facts_report(files: Sequence[FileFacts]) -> dict[str, Any]:
    """`kvplan.check/1` without verdicts and findings."""
    deployments = sum(len(file.reading.deployments) for file in files)
    return {
        "schema": "kvplan.check/1",
        "summary": {"deployments": deployments},
        "files": [_file(file) for file in files],
    }


def _file(file: FileFacts) -> dict[str, Any]:
    reading = file.reading
    return {
        "path": file.path,
        "needs_rendering": reading.render is not None,
        "unparsable": bool(reading.errors),
        "deployments": [
            {
                "name": deployment.name,
                "line": deployment.line,
                "facts": {name: _fact(fact) for name, fact in deployment.facts.items()},
            }
            for deployment in reading.deployments
        ],
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "value": _open(fact.value),
        "line": fact.line,
        "column": fact.column,
        "status": fact.status,
        "origin": fact.origin,
    }


def _open(value: Any) -> Any:
    """A value without the name and password of an address."""
    return _SECRET.sub("***", value) if isinstance(value, str) else value


def facts_text(files: Sequence[FileFacts]) -> str:
    """Each engine with its facts, then what could not be read."""
    lines: list[str] = []
    for file in files:
        for deployment in file.reading.deployments:
            lines += [*_deployment(file.path, deployment), ""]
    for file in files:
        lines += [f"{error}" for error in file.reading.errors]
        if file.reading.render:
            lines.append(f"{file.path}: is a template: {file.reading.render}")
    engines = sum(len(file.reading.deployments) for file in files)
    lines.append(f"{format_count(engines, 'engine')} in {format_count(len(files), 'file')}")
    return "\n".join(_line(text) for text in lines) + "\n"


def _line(text: str) -> str:
    """A name out of a file stays on its line."""
    return visible(text.replace("\r", "\\r"))


def _deployment(path: str, deployment: Deployment) -> list[str]:
    name = deployment.name.replace("\n", "\\n")
    lines = [f"{path}:{deployment.line}: {name}"]
    rows = []
    for fact_name, fact in deployment.facts.items():
        if fact.status == "absent":
            continue
        value = "?" if fact.value is None else str(_open(fact.value)).replace("\n", "\\n")
        how = {"literal": "", "env": ", through a variable"}.get(fact.status, ", not defined here")
        rows.append((fact_name, value, f"{fact.line}:{fact.column} {fact.origin}{how}"))
    width = max((len(value) for _, value, _ in rows), default=0)
    lines += [f"  {n:<23} {value:<{min(width, 48)}}  {where}".rstrip() for n, value, where in rows]
    absent = [n for n, fact in deployment.facts.items() if fact.status == "absent"]
    if absent:
        lines.append(f"  {'not stated':<23} {', '.join(absent)}")
    return lines
