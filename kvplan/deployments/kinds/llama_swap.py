"""llama-swap: a command for each model, with macros; the model's own win over the file's."""

from __future__ import annotations

import re

from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import UNRESOLVED
from kvplan.deployments.kinds.scripts import read_script
from kvplan.deployments.launch import Launch, read_flags
from kvplan.deployments.node import Node
from kvplan.deployments.script import Script
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_MACRO = re.compile(r"\$\{([\w-]+)\}")
_COMMENT = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)


def claims(node: Node) -> bool:
    """A mapping of models with commands."""
    models = node.get("models")
    return models.is_map and any(value.get("cmd").is_scalar for _, value in models.items())


def read(node: Node, world: World) -> list[Draft]:
    """One engine for each model."""
    outer = Scope(world.refs, world.host)
    _define(outer, node.get("macros"))
    found = []
    for name, model in node.get("models").items():
        scope = Scope(world.refs, outer)
        _define(scope, model.get("macros"))
        command = model.get("cmd")
        if command.is_scalar:
            found += _model(name, model, _joined(command.mapped()), scope)
    return found


def _define(scope: Scope, macros: Node) -> None:
    for name, value in macros.items():
        text = scope.refs.encode(_joined(value.mapped()), "shell")
        scope.define(name, text.text.strip(), text.place())


def _joined(text: Mapped) -> Mapped:
    """One line: lines are not commands here, and comments are left out."""
    bare = _COMMENT.sub(lambda found: " " * len(found.group()), text.text)
    bare = re.sub(r"\\(?=\n)", " ", bare).replace("\n", " ")
    return Mapped(bare, [(offset, *place) for offset, place in text.marks()])


def _model(name: str, model: Node, command: Mapped, scope: Scope) -> list[Draft]:
    found = read_script(command, scope)
    if not found:
        found = _unknown(command, scope)
    for draft in found:
        draft.name, draft.line = name, model.place(key=True)[0]
    return found[:1]


def _unknown(command: Mapped, scope: Scope) -> list[Draft]:
    """A program that is a macro of another file: its flags tell of llama-server."""
    script = Script(scope).read(command)
    for line in script.lines:
        words = line.words
        flags = {word.text.partition("=")[0] for word in words}
        place = (words[0].line, words[0].column)
        draft = Draft("llamacpp", place[0], scope)
        draft.put("engine", None, place, "cmd", UNRESOLVED)
        if not flags & {"-m", "--model", "--ctx-size", "-ngl", "--n-gpu-layers"}:
            return [draft]
        read_flags(Launch("llamacpp", place, words[1:], line.spread), draft)
        return [draft]
    return []
