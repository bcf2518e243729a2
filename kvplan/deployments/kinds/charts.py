"""Values of charts whose schema is known, and of others that follow the same habits.

vLLM production-stack   servingEngineSpec.modelSpec[]
llm-d modelservice      modelArtifacts, decode, prefill; older: sampleApplication
llm-d benchmark         scenario[].common.model feeds the commands of prefill and decode
KubeAI                  catalog.NAME
NIM and others          image.repository, resources, replicaCount at any depth
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.deployments.container import Container, kubernetes_container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import read_resources, read_selectors
from kvplan.deployments.images import engine_of
from kvplan.deployments.kinds.serving import engine_name, kubeai_model, stack_options
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.pods import containers_of
from kvplan.deployments.variables import SHELL, Scope
from kvplan.deployments.world import World

_DOWNLOAD = re.compile(
    r"(?:hf|huggingface-cli)\s+download\s+(?P<id>[\w.-]+/[\w.-]+).*?--local-dir[ =](?P<to>\S+)"
)
_ROLES = ("prefill", "decode")
_DEEPEST = 6


def claims(node: Node) -> bool:
    """A mapping that is no Kubernetes object."""
    return node.is_map and not node.get("kind") and not node.get("apiVersion")


def read(node: Node, world: World) -> list[Draft]:
    """The engines, by the first schema that has any."""
    for reader in (_stack, _modelservice, _sample, _scenario, _catalogue, _values):
        found = list(reader(node, world))
        if found:
            return found
    return []


def _container(node: Node, world: World, name: str) -> Container:
    container = Container(name, node.place(), world, world.environment(node))
    image = node.get("image")
    if image.is_map:
        container.read_image(image.get("repository"), image.get("tag"))
        container.add_words(image.get("command"), command=True)
    elif node.get("repository").is_scalar:
        container.read_image(node.get("repository"), node.get("tag"))
    else:
        container.read_image(image)
    return container


# -- vLLM production-stack ---------------------------------------------------------------------


def _stack(node: Node, world: World) -> Iterator[Draft]:
    spec = node.get("servingEngineSpec")
    specs = spec.get("modelSpec")
    for model in specs.each() if specs.is_list else [value for _, value in specs.items()]:
        if not model.is_map:
            continue
        container = _container(model, world, model.get("name").text or "engine")
        draft = container.draft
        draft.line = (model.get("name") if model.get("name") else model).place()[0]
        stack_options(model.get("vllmConfig"), draft)
        config = model.get("vllmConfig")
        container.add_words(config.get("extraArgs"))
        engine = container.image.engine or "vllm"
        repository = model.get("repository")
        place = (repository if repository else model).place()
        container.start(engine, place)
        draft.drop("model")
        draft.read("model", model.get("modelURL"))
        _downloaded(model, draft)
        count = model.get("requestGPU")
        if count.is_scalar:
            draft.read("gpu_count", count)
        kind = re.fullmatch(r"nvidia\.com/(mig-.+)", model.get("requestGPUType").text)
        if kind:
            draft.put("gpu_type", kind[1], model.get("requestGPUType").place(), "requestGPUType")
        draft.read("replicas", model.get("replicaCount"))
        selectors = model if _selects(model) else spec
        read_selectors(selectors, draft)
        yield draft


def _selects(node: Node) -> bool:
    return bool(node.get("nodeSelector") or node.get("nodeSelectorTerms") or node.get("affinity"))


def _downloaded(model: Node, draft: Draft) -> None:
    """A local path that an init container fills by `hf download ID --local-dir PATH`."""
    init = model.get("initContainer")
    for item in init.get("args").each():
        found = _DOWNLOAD.search(item.text)
        if found and found["to"].rstrip("/") == str(draft.value("model")).rstrip("/"):
            place = item.mapped().place(found.start("id"))
            draft.put("model_source", found["id"], place, "initContainer")


# -- llm-d -------------------------------------------------------------------------------------


def _modelservice(node: Node, world: World) -> Iterator[Draft]:
    artifacts = node.get("modelArtifacts")
    if not artifacts.is_map:
        return
    for role in _ROLES:
        part = node.get(role)
        if not part.is_map or part.get("create").data is False:
            continue
        for spec in containers_of(part):
            container = kubernetes_container(spec, world)
            command = spec.get("modelCommand").text
            engine = "vllm" if command == "vllmServe" else container.image.engine
            draft = container.draft
            if container.image.engine is None and engine is None:
                continue
            draft.name = role
            told = spec.get("modelCommand") if command == "vllmServe" else spec.get("image")
            if command == "custom":
                if container.read() is None:
                    continue
            else:
                container.start(engine or "vllm", told.place())
            if not draft.has("model"):
                name = artifacts.get("name")
                draft.read("model", name if name else artifacts.get("uri"))
            _role(part, node, draft)
            yield draft


def _role(part: Node, node: Node, draft: Draft) -> None:
    parallel = part.get("parallelism")
    for key, fact in (("tensor", "tp"), ("data", "dp"), ("workers", "nodes")):
        if not draft.has(fact):
            draft.read(fact, parallel.get(key))
    draft.read("replicas", part.get("replicas"))
    for accelerator in (part.get("accelerator"), node.get("accelerator")):
        kind = accelerator.get("type")
        if kind.is_scalar and not draft.has("gpu_type") and kind.text not in _VENDORS:
            draft.read("gpu_type", kind)
    read_selectors(part, draft)


_VENDORS = ("nvidia", "amd", "intel", "cpu", "gpu", "google", "auto")


def _sample(node: Node, world: World) -> Iterator[Draft]:
    sample = node.get("sampleApplication")
    model = sample.get("model", "modelArtifactURI")
    for role in _ROLES:
        part = sample.get(role)
        arguments = part.get("extraArgs")
        if not arguments:
            continue
        container = Container(role, part.place(key=True), world, Scope(world.refs, world.host))
        container.add_words(arguments)
        container.start("vllm", container.telling("vllm") or part.place(key=True))
        draft = container.draft
        draft.read("model", model)
        draft.read("replicas", part.get("replicas"))
        resources = part.get("resources") if part.get("resources") else sample.get("resources")
        read_resources(resources, draft)
        yield draft


# What the benchmark's tool puts into the environment of its commands.
_FED = {
    "MODEL_PATH": "path", "VLLM_MAX_MODEL_LEN": "maxModelLen", "VLLM_BLOCK_SIZE": "blockSize",
    "VLLM_ACCELERATOR_MEM_UTIL": "gpuMemoryUtilization",
}  # fmt: skip


def _scenario(node: Node, world: World) -> Iterator[Draft]:
    for scenario in node.get("scenario").each():
        common = scenario.get("common") if scenario.get("common") else scenario
        model = common.get("model") if common.get("model") else scenario.get("model")
        places = [scenario, *(value for _, value in scenario.items() if value.is_map)]
        for role in (*_ROLES, "standalone"):
            for parent in places:
                part = parent.get(role)
                if part.is_map and part.get("enabled").data is not False:
                    yield from _scenario_role(role, part, model, world)


def _scenario_role(role: str, part: Node, model: Node, world: World) -> Iterator[Draft]:
    scope = Scope(world.refs, world.host)
    for name, key in _FED.items():
        if model.get(key).is_scalar:
            scope.define(name, model.get(key).text, model.get(key).place())
    parallel = part.get("parallelism")
    for name, key in (("TP_SIZE", "tensor"), ("DP_SIZE", "data")):
        if parallel.get(key).is_scalar:
            scope.define(name, parallel.get(key).text, parallel.get(key).place())
    command = part.get("vllm").first("customCommand", "command")
    if not command.is_scalar:
        return
    from kvplan.deployments.kinds.scripts import read_script

    for draft in read_script(world.refs.encode(command.mapped(), "none"), scope):
        draft.name, draft.line = role, part.place(key=True)[0]
        _role(part, part, draft)
        image = part.get("image")
        if image.is_map:
            draft.read("version", image.get("tag"))
        yield draft


# -- KubeAI ------------------------------------------------------------------------------------


def _catalogue(node: Node, world: World) -> Iterator[Draft]:
    for parent in (node, *(value for _, value in node.items() if value.is_map)):
        for name, spec in parent.get("catalog").items():
            if spec.get("engine").is_scalar:
                found = kubeai_model(name, spec.place(key=True)[0], spec, world)
                if found is not None:
                    yield found


# -- others ------------------------------------------------------------------------------------


def _values(node: Node, world: World) -> Iterator[Draft]:
    """Every part whose image, or whose engine's name, tells of an engine."""
    yield from _parts(node, node, world, 0)


def _parts(node: Node, root: Node, world: World, depth: int) -> Iterator[Draft]:
    if depth > _DEEPEST or node.get("enabled").data is False:
        return
    found = _part(node, root, world) if node.is_map else None
    if found is not None:
        yield found
        return
    children = [value for _, value in node.items()] if node.is_map else list(node.each())
    for value in children:
        if (value.is_map or value.is_list) and value.key not in ("initContainers", "sidecar"):
            yield from _parts(value, root, world, depth + 1)


def _part(node: Node, root: Node, world: World) -> Draft | None:
    image = node.get("image")
    repository = image.get("repository") if image.is_map else image
    engine = None
    place = node.place(key=True)
    if repository.is_scalar:
        engine = engine_of(repository.text.partition(":")[0])
        place = repository.place()
    told = node.first("framework", "engine")
    if engine is None and told.is_scalar and (named := engine_name(told.text)):
        engine, place = named, told.place()
    arguments = node.first("serverArgs", "extraArgs", "args", "extraCmdArgs", "modelArgs")
    if engine is None and arguments.is_map and engine_name(node.key):
        engine = engine_name(node.key)
    if engine is None:
        return None
    container = _container(node, world, node.key or "engine")
    draft = container.draft
    draft.line = node.place(key=True)[0]
    container.add_words(node.get("extraCmd", "command"), command=True)
    _options(container, arguments, engine)
    if container.read() is None:
        container.start(engine, place)
    for outer in (node, root):
        _common(outer, engine, draft)
    return draft


def _options(container: Container, arguments: Node, engine: str) -> None:
    if arguments.is_map:
        read_options(engine, arguments, container.draft)
    elif arguments.is_scalar:
        refs = container.scope.refs
        container.take_line(refs.encode(_continued(arguments), SHELL))
    else:
        container.add_words(arguments)


def _continued(node: Node):  # type: ignore[no-untyped-def]
    """A text whose lines a shell would join."""
    text = node.mapped()
    from kvplan.deployments.text import Mapped

    return Mapped(
        re.sub(r"\\(?=\n)", " ", text.text), [(offset, *place) for offset, place in text.marks()]
    )


_KEYS = (
    ("model", ("modelPath", "modelURL", "LLM_MODEL_ID", "modelId", "model_id")),
    ("tp", ("tp_size", "tpSize", "tensorParallelSize", "tensorParallelism")),
    ("pp", ("pp_size", "ppSize", "pipelineParallelSize", "pipelineParallelism")),
    ("nodes", ("nnodes",)),
    ("max_model_len", ("maxModelLen", "max_model_len")),
    ("replicas", ("replicaCount", "replicas")),
    ("quantization", ("precision_",)),
)


def _common(node: Node, engine: str, draft: Draft) -> None:
    """Facts under the keys that charts agree on."""
    model = node.get("model")
    for fact, keys in _KEYS:
        for part in (node, model):
            for key in keys:
                if not draft.has(fact):
                    draft.read(fact, part.get(key))
    if not draft.has("model"):
        repository = node.get("image", "repository")
        if engine == "nim" and repository.is_scalar:
            draft.read("model", repository)
        elif model.is_scalar:
            draft.read("model", model)
        elif model.get("name").is_scalar:
            draft.read("model", model.get("name"))
    scaling = node.get("autoscaling")
    if scaling.get("enabled").data is True and scaling.get("minReplicas").is_scalar:
        draft.read("replicas", scaling.get("minReplicas"))
    if not draft.has("gpu_count"):
        read_resources(node.get("resources"), draft)
    if not draft.has("gpu_count"):
        draft.read("gpu_count", node.get("job", "gpus"))
    read_selectors(node, draft)
