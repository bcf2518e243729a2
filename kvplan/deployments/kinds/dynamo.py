"""NVIDIA Dynamo: workers of a graph; the first releases hold all options in one JSON variable."""

from __future__ import annotations

import re

from kvplan.deployments.container import Container, kubernetes_container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import read_resources
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.pods import Around, Pod, complete, read_pods
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_CONFIG = "DYN_DEPLOYMENT_CONFIG"
# Components around the engines.
_BESIDE = ("frontend", "main", "planner", "processor", "router", "epp", "default")
_FETCH = re.compile(r"\b(?P<from>(?:s3|gs|tos|oss|hf)://\S+)[ \t]+(?P<to>\S+)")


def claims(node: Node) -> bool:
    """A graph or a component of one."""
    return node.get("kind").data in ("DynamoGraphDeployment", "DynamoComponentDeployment")


def read(node: Node, world: World) -> list[Draft]:
    """The engines among its services."""
    spec = node.get("spec")
    scope = Scope(world.refs, world.host)
    world.add(scope, spec.get("envs"))
    options = _options(spec)
    services = list(spec.get("services").items())
    services += [(item.get("name").text, item) for item in spec.get("components").each()]
    if not services:
        return read_pods(node, world)
    found = []
    for name, service in services:
        kind = service.first("componentType", "type").text.lower()
        draft = None if kind in _BESIDE else _service(name, service, world, scope, options)
        if draft is not None:
            found.append(draft)
    return found


def _options(spec: Node) -> Node | None:
    for item in spec.get("envs").each():
        if item.get("name").data == _CONFIG:
            inner = item.get("value").inner()
            return inner[0] if inner else None
    return None


def _service(
    name: str, service: Node, world: World, scope: Scope, options: Node | None
) -> Draft | None:
    outer = Scope(world.refs, scope)
    world.add(outer, service.get("envs"))
    pod = service.get("extraPodSpec")
    template = service.get("podTemplate", "spec")
    spec = pod if pod else template
    main = spec.get("mainContainer")
    if not main:
        main = next((item for item in spec.get("containers").each() if item.is_map), main)
    container = kubernetes_container(main, world, outer)
    draft = container.draft
    if options is not None:
        if not options.get(name).is_map or not service.get("resources", "limits", "gpu"):
            return None
        _old(name, container, options)
    elif container.read() is None:
        return None
    draft.name, draft.line = name, service.place(key=True)[0]
    if not draft.has("gpu_count"):
        read_resources(service.get("resources"), draft)
    sized = service.get("multinode", "nodeCount")
    around = Around(
        replicas=service.get("replicas") if service.get("replicas") else None,
        nodes=sized if sized else None,
    )
    complete(draft, Pod(spec, around))
    return draft


def _old(name: str, container: Container, options: Node) -> None:
    """A service of the first releases: its own options, and the common ones that it takes."""
    draft = container.draft
    own = options.get(name)
    engine = container.image.engine or "vllm"
    common = options.get("Common")
    shared = {item.text for item in own.get("common-configs").each()}
    container.start(engine, container.place)
    for key in ("model", "tp", "max_model_len"):
        draft.drop(key)
    if shared:
        taken = [key for key in common.data or () if key in shared]
        for key in taken:
            read_options(engine, common.only(key), draft)
    read_options(engine, own, draft)
    model = draft.value("model")
    for text, place in container.texts():
        found = _FETCH.search(text)
        if found and model and str(model).strip("./").endswith(found["from"].rpartition("/")[2]):
            draft.put("model_source", found["from"], place(found.start("from")), "command")
