"""docker-compose: services with an image or a build, a command, variables and reserved devices.

`${VAR:-default}` is replaced on the host before a container sees it: its default counts, and says
so; a variable without one is not known. `$$VAR` is for the container's own shell.
"""

from __future__ import annotations

import re

from kvplan.deployments.container import Container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import read_devices
from kvplan.deployments.node import Node
from kvplan.deployments.variables import COMPOSE, Scope
from kvplan.deployments.world import World

_TAG_ARGUMENT = re.compile(r".*(VERSION|TAG)")
_CLIENT = re.compile(r"\bollama\s+(pull|list|run|create)\b")


def claims(node: Node) -> bool:
    """A mapping of services, and no Kubernetes object."""
    services = node.get("services")
    if not services.is_map or node.get("kind") or node.get("apiVersion"):
        return False
    inside = ("image", "build", "command", "entrypoint", "extends")
    return any(value.get(name) for _, value in services.items() for name in inside)


def read(node: Node, world: World) -> list[Draft]:
    """The engines among the services."""
    found = []
    for name, service in node.get("services").items():
        draft = _service(name, service, world) if service.is_map else None
        if draft is not None:
            found.append(draft)
    return found


def _service(name: str, service: Node, world: World) -> Draft | None:
    scope = Scope(world.refs, world.host)
    world.add(scope, service.get("environment"), COMPOSE)
    place = service.place(key=True)
    container = Container(name, place, world, scope)
    container.read_image(service.get("image"), style=COMPOSE)
    container.add_words(service.get("entrypoint"), COMPOSE, command=True)
    container.add_words(service.get("command"), COMPOSE)
    if container.image.engine is None:
        _built(container, name, service)
    draft = container.read()
    if draft is None or (draft.value("engine") == "ollama" and _CLIENT.search(_words(service))):
        return None
    devices = service.get("deploy", "resources", "reservations", "devices")
    if devices:
        read_devices(devices, draft, COMPOSE)
    elif service.get("gpus").is_scalar:
        draft.read("gpu_count", service.get("gpus"), style=COMPOSE)
    else:
        read_devices(service.get("gpus"), draft, COMPOSE)
    replicas = service.get("deploy", "replicas")
    draft.read("replicas", replicas if replicas else service.get("scale"), style=COMPOSE)
    return draft


def _words(service: Node) -> str:
    command = service.get("command")
    return command.text or " ".join(item.text for item in command.each())


def _built(container: Container, name: str, service: Node) -> None:
    """An image that is built here, or whose name is a variable: the service's name tells."""
    from kvplan.deployments.images import engine_of

    context = service.get("build")
    told = [name, context.text, context.get("context").text, service.get("image").text]
    engine = next((engine for text in told if text and (engine := engine_of(text.lower()))), None)
    if engine is None:
        return
    if service.get("image") and container.image.repository and not _unknown(service):
        return
    container.image = container.image._replace(engine=engine, tag=container.image.tag)
    for key, value in context.get("args").items():
        if _TAG_ARGUMENT.fullmatch(key) and not service.get("image"):
            container.draft.read("version", value, style=COMPOSE)


def _unknown(service: Node) -> bool:
    return "$" in service.get("image").text
