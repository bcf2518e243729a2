"""systemd units and quadlets: `ExecStart=` and `Exec=` with `Environment=`."""

from __future__ import annotations

import re

from kvplan.deployments.container import Container
from kvplan.deployments.draft import Draft
from kvplan.deployments.shell import Scanner
from kvplan.deployments.text import Mapped, plain
from kvplan.deployments.variables import SHELL, Refs, Scope
from kvplan.deployments.world import World

_ENTRY = re.compile(r"^([A-Za-z]\w*)[ \t]*=[ \t]*((?:[^\n\\]|\\(?:.|\n))*)", re.MULTILINE)


def read(text: str, name: str) -> list[Draft]:
    """The engine of a unit."""
    world = World([])
    scope = Scope(world.refs, world.host)
    mapped = plain(text)
    commands: list[tuple[str, Mapped]] = []
    image: Mapped | None = None
    count: tuple[str, Mapped] | None = None
    for found in _ENTRY.finditer(text):
        key, value = found[1], mapped.part(found.start(2), found.end(2))
        if key == "Environment":
            _environment(value, scope, world.refs)
        elif key in ("ExecStart", "Exec") and value.text.strip():
            commands.append((key, value))
        elif key == "Image":
            image = value
        elif key == "AddDevice" and "nvidia.com/gpu=" in value.text:
            count = (value.text.partition("gpu=")[2].strip(), value)
    place = commands[0][1].place() if commands else (1, 1)
    container = Container(name, place, world, scope)
    if image is not None:
        container.take_image(image)
    for _, command in commands:
        container.take_line(world.refs.encode(command, SHELL), command=image is None)
    draft = container.read()
    if draft is not None and count is not None:
        draft.put("gpu_count", int(count[0]) if count[0].isdigit() else count[0],
                  count[1].place(), "AddDevice")  # fmt: skip
    return [draft] if draft is not None else []


def _environment(value: Mapped, scope: Scope, refs: Refs) -> None:
    for command in Scanner(value, refs, operators=False, style="none").commands():
        for word in command.words:
            name, equals, text = word.text.partition("=")
            if equals:
                scope.define(name, text, (word.line, word.column))
