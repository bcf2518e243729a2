"""Shell scripts and Slurm jobs: assignments and arrays are followed, nothing is run."""

from __future__ import annotations

import re

from kvplan.deployments.dialects import dialect
from kvplan.deployments.draft import Draft
from kvplan.deployments.launch import Launch, find_launch, read_container_options, read_flags
from kvplan.deployments.script import Script
from kvplan.deployments.text import Mapped, plain
from kvplan.deployments.variables import SHELL, Refs, Scope
from kvplan.documents.document import Place

_GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "G", "gres")
_SBATCH = re.compile(r"^#SBATCH[ \t]+(?:--([\w-]+)|-(\w))(?:[ =]+)?(\S*)", re.MULTILINE)


def read_script(text: Mapped, scope: Scope) -> list[Draft]:
    """The engines that a script starts."""
    script = Script(scope).read(text)
    found = []
    for line in script.lines:
        launch = find_launch(line, lambda word: script.scope.resolve(word).text)
        if launch is not None:
            found.append(started(launch, script))
    return found


def started(launch: Launch, script: Script) -> Draft:
    """The engine of one launch."""
    name = launch.engine
    draft = Draft(name, launch.place[0], script.scope)
    draft.put("engine", launch.engine, launch.place, "command")
    read_container_options(launch, draft)
    _variables(launch, draft, script)
    read_flags(launch, draft, script.files.get)
    if launch.image is not None and launch.image.tag:
        draft.put("version", launch.image.tag, launch.place, "image")
    return draft


def _variables(launch: Launch, draft: Draft, script: Script) -> None:
    """What the engine reads from variables that the script exports itself."""
    rules = dialect(launch.engine)
    if rules is None or launch.image is not None:
        return
    for name, fact in rules.env.items():
        given = script.scope.find(name)
        if given is not None and given.text is not None:
            draft.say(fact, given.text, given.place, name, through=True)


def read(text: str) -> list[Draft]:
    """The engines of a script file."""
    mapped = plain(text)
    found = read_script(mapped, Scope(Refs()))
    for draft in found:
        _slurm(text, mapped, draft)
    return found


def _slurm(text: str, mapped: Mapped, draft: Draft) -> None:
    """`#SBATCH` lines: GPUs of a node, or of the job, and nodes."""
    for found in _SBATCH.finditer(text):
        name, value = found[1] or found[2], found[3]
        place = mapped.place(found.start())
        value = draft.scope.refs.encode(Mapped(value, [(0, *place)]), SHELL).text
        if name in ("nodes", "N") and not draft.known("nodes"):
            draft.say("nodes", value.partition("-")[0], place, "#SBATCH")
        elif name in _GPUS and not draft.has("gpu_count"):
            _gpus(value, place, draft)


def _gpus(value: str, place: Place, draft: Draft) -> None:
    parts = [part for part in value.split(",")[0].split(":") if part != "gpu"]
    if not parts:
        return
    if not re.fullmatch(r"[A-Za-z][\w.-]*", parts[-1]):
        draft.say("gpu_count", parts[-1], place, "#SBATCH")
    kinds = [part for part in parts if re.fullmatch(r"[A-Za-z][\w.-]*", part)]
    if kinds:
        draft.say("gpu_type", kinds[0], place, "#SBATCH")
