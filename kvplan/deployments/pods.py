"""Every pod of a Kubernetes object, whatever its kind: gangs as one, prefill and decode apart.

Operators wrap the same pod in ever other names, so nothing here knows kinds: a mapping with a list
of `containers` is a pod, and on the way to it the nearest `replicas` and sizes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvplan.deployments.container import Container, kubernetes_container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import read_resources, read_selectors
from kvplan.deployments.node import Node
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

# Containers that stand alone in a mapping.
_SINGLE = ("mainContainer", "runner")
# Keys under which no engine of the deployment runs.
_PASSED = frozenset(
    ("initContainers", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "router",
     "routerConfig", "metadata", "status", "data", "stringData", "volumes",
     "scheduler", "ephemeralContainers")
)  # fmt: skip
_SIZES = ("size", "podGroupSize", "nodeCount")
_SIZED = ("leaderWorkerTemplate", "leaderWorkerPattern", "workloadTemplate", "multinode")
_FOLLOWERS = (("leaderTemplate", "workerTemplate"), ("leader", "worker"), ("template", "worker"))
_DEEPEST = 40


class Around(NamedTuple):
    """What stands around a pod: the nearest statement of each."""

    replicas: Node | None = None
    nodes: Node | None = None
    resources: Node | None = None
    scope: Scope | None = None
    name: str = ""


class Pod(NamedTuple):
    """A pod and what stands around it."""

    spec: Node
    around: Around


def find_pods(node: Node, world: World, around: Around, depth: int = 0) -> Iterator[Pod]:
    """Every pod inside a value."""
    if depth > _DEEPEST:
        return
    if node.is_list:
        for item in node.each():
            yield from find_pods(item, world, around, depth + 1)
        return
    if not node.is_map:
        return
    around = _nearer(node, world, around)
    containers = node.get("containers")
    has_own = any(item.is_map for item in containers.each())
    if has_own or any(node.get(name).is_map for name in _SINGLE):
        yield Pod(node, around)
    skipped = {
        follower
        for leader, follower in _FOLLOWERS
        if _has_containers(node.get(leader)) and node.get(follower)
    }
    for key, value in node.items():
        if key in _PASSED or key in skipped or (key == "containers" and has_own):
            continue
        if key in _SINGLE:
            continue
        if value.is_map or value.is_list:
            yield from find_pods(value, world, around, depth + 1)


def _has_containers(node: Node, depth: int = 0) -> bool:
    if node.get("containers").is_list or any(node.get(name).is_map for name in _SINGLE):
        return True
    return depth < 3 and any(_has_containers(v, depth + 1) for _, v in node.items() if v.is_map)


def _nearer(node: Node, world: World, around: Around) -> Around:
    replicas = node.first("replicas", "minReplicas")
    if replicas.is_scalar:
        around = around._replace(replicas=replicas)
    for name in _SIZED:
        size = node.get(name).first(*_SIZES)
        if size.is_scalar:
            around = around._replace(nodes=size)
    if node.get("podGroupSize").is_scalar:
        around = around._replace(nodes=node.get("podGroupSize"))
    if node.get("resources", "limits", "gpu") or node.get("resources", "requests", "gpu"):
        around = around._replace(resources=node.get("resources"))
    if node.get("extraPodSpec").is_map:
        around = around._replace(name=node.key)
    if node.get("envs").is_list:
        scope = Scope(world.refs, around.scope)
        world.add(scope, node.get("envs"))
        around = around._replace(scope=scope)
    return around


def read_pods(
    node: Node, world: World, also: Callable[[Container, Pod], Draft | None] | None = None
) -> list[Draft]:
    """The engines of a Kubernetes object.

    Args:
        also: a second look at a container that starts no engine by itself.
    """
    found: list[Draft] = []
    for pod in find_pods(node, world, Around()):
        for container_node in containers_of(pod.spec):
            container = kubernetes_container(container_node, world, pod.around.scope)
            draft = container.read() or (also(container, pod) if also else None)
            if draft is None:
                continue
            if pod.around.name:
                draft.name = pod.around.name
            complete(draft, pod)
            found.append(draft)
    return found


def containers_of(spec: Node) -> Iterator[Node]:
    """The containers of a pod."""
    yield from (item for item in spec.get("containers").each() if item.is_map)
    for name in _SINGLE:
        if spec.get(name).is_map:
            yield spec.get(name)


def complete(draft: Draft, pod: Pod) -> None:
    """Add what stands around a pod."""
    around = pod.around
    if around.replicas is not None and not draft.has("replicas"):
        draft.read("replicas", around.replicas)
    if around.nodes is not None and not draft.known("nodes"):
        draft.read("nodes", around.nodes)
    if around.resources is not None and not draft.has("gpu_count"):
        read_resources(around.resources, draft)
    read_selectors(pod.spec, draft)
