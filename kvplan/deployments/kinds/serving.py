"""Operators' objects that name the model and the width in fields of their own.

KServe InferenceService, LLMInferenceService; KubeAI Model; kthena ModelBooster; NIMService;
VLLMRuntime; KAITO Workspace
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvplan.deployments.container import Container, kubernetes_container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import (
    read_accelerator,
    read_resources,
    read_selectors,
    split_accelerator,
)
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.pods import Around, Pod, complete, read_pods
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_ENGINES = {
    "vllm": "vllm", "ollama": "ollama", "sglang": "sglang", "llamacpp": "llamacpp",
    "llama.cpp": "llamacpp", "tgi": "tgi", "infinity": "other", "fasterwhisper": "other",
    "tensorrt_llm": "tensorrt_llm", "trtllm": "tensorrt_llm", "lmdeploy": "lmdeploy",
    "vllmdisaggregated": "vllm", "vllmengine": "vllm",
}  # fmt: skip


def engine_name(text: str) -> str | None:
    """An engine by the name that operators give it."""
    return _ENGINES.get(text.strip().lower())


def claims(node: Node) -> bool:
    """An object whose kind is one of these."""
    kind = node.get("kind").data
    return isinstance(kind, str) and kind in _READERS


def read(node: Node, world: World) -> list[Draft]:
    """Its engines."""
    return _READERS[node.get("kind").text](node, world)


def _draft(node: Node, world: World) -> Draft:
    meta = node.get("metadata", "name")
    line = meta.place()[0] if meta else node.place()[0]
    return Draft(meta.text or "engine", line, Scope(world.refs, world.host))


# -- KServe ------------------------------------------------------------------------------------


def _inference_service(node: Node, world: World) -> list[Draft]:
    spec = node.get("spec")
    predictor = spec.get("predictor")
    if not predictor.get("model").is_map:
        found = read_pods(node, world)
        model = spec.get("model", "name")
        for draft in found:
            if not draft.has("model") and model.is_scalar:
                draft.read("model", model)
        return found
    model = predictor.get("model")
    container = kubernetes_container(model, world)
    draft = container.draft
    draft.name, draft.line = _draft(node, world).name, _draft(node, world).line
    told = container.read()
    if told is None:
        _by_format(container, model, draft)
    uri = model.get("storageUri")
    if uri.is_scalar:
        draft.read("model_source", uri)
        if not draft.has("model"):
            draft.read("model", uri)
    size = predictor.get("workerSpec")
    for key, fact in (("tensorParallelSize", "tp"), ("pipelineParallelSize", "pp")):
        if size.get(key).is_scalar:
            draft.read(fact, size.get(key))
    complete(draft, Pod(predictor, Around(replicas=predictor.get("minReplicas"))))
    if not predictor.get("minReplicas").is_scalar:
        draft.drop("replicas")
    return [draft] if draft.has("engine") else []


def _by_format(container: Container, model: Node, draft: Draft) -> None:
    """KServe's Hugging Face server runs vLLM unless its backend says otherwise."""
    arguments = list(model.get("args").each())
    words = [(item.text.partition("=")[2], item) for item in arguments if "--backend" in item.text]
    backend = words[-1] if words else None
    name = model.get("modelFormat", "name").text.lower()
    if backend and backend[0] == "huggingface":
        draft.put("engine", "other", backend[1].place(), "--backend")
        for item in arguments:
            if item.text.startswith(("--model_dir=", "--model_id=")):
                value = item.mapped().part(item.text.index("=") + 1)
                draft.say("model", value.text, value.place(), "args")
        return
    if name not in ("huggingface", "vllm") and "vllm" not in model.get("runtime").text:
        return
    place = arguments[0].place() if arguments else model.get("modelFormat", "name").place()
    container.start("vllm", container.telling("vllm") or place)
    for item in arguments:
        if item.text.startswith(("--model_dir=", "--model_id=")) and not draft.has("model"):
            value = item.mapped().part(item.text.index("=") + 1)
            draft.say("model", value.text, value.place(), "args")


def _llm_service(node: Node, world: World) -> list[Draft]:
    spec = node.get("spec")
    found = []
    for part, name in ((spec, ""), (spec.get("prefill"), "-prefill")):
        if not part:
            continue
        draft = _llm_part(node, part, world)
        draft.name += name
        if name:
            draft.line = part.place(key=True)[0]
        model = spec.get("model")
        if not draft.has("model"):
            uri = model.get("uri")
            draft.read("model", uri if uri else model.get("name"))
        if draft.has("engine"):
            found.append(draft)
    return found


def _llm_part(node: Node, part: Node, world: World) -> Draft:
    base = _draft(node, world)
    pod = part.get("template")
    containers = [item for item in pod.get("containers").each() if item.is_map]
    named = [item for item in containers if item.get("name").data == "main"] or containers
    draft = base
    if named:
        container = kubernetes_container(named[0], world)
        draft = container.draft
        if container.read() is None:
            flags = world.flags_variable(named[0])
            told = named[0].get("image") if named[0].get("image") else node.get("kind")
            place = flags or told.place()
            container.start("vllm", place)
        draft.name, draft.line = base.name, base.line
    else:
        draft.put("engine", "vllm", node.get("kind").place(), "kind")
    parallel = part.get("parallelism")
    for key, fact in (("tensor", "tp"), ("pipeline", "pp"), ("data", "dp")):
        if parallel.get(key).is_scalar:
            draft.read(fact, parallel.get(key))
    replicas = part.get("replicas")
    complete(draft, Pod(pod, Around(replicas=replicas if replicas else None)))
    return draft


# -- others --------------------------------------------------------------------------------------


def kubeai_model(name: str, line: int, spec: Node, world: World) -> Draft | None:
    """A KubeAI model, as an object or as an entry of the chart's catalogue."""
    engine = engine_name(spec.get("engine").text)
    if engine is None:
        return None
    scope = Scope(world.refs, world.host)
    world.add(scope, spec.get("env"))
    container = Container(name, spec.place(), world, scope)
    container.draft.line = line
    container.read_image(spec.get("image"))
    container.add_words(spec.get("args"))
    container.start(engine, spec.get("engine").place())
    draft = container.draft
    if not draft.has("model"):
        draft.read("model", spec.get("url"))
    profile = spec.get("resourceProfile")
    named = split_accelerator(profile.text)
    if named and not re.match(r"cpu\b", named[0]):
        read_accelerator(profile, draft)
    replicas = spec.get("replicas") if spec.get("replicas") else spec.get("minReplicas")
    draft.read("replicas", replicas)
    return draft


def _kubeai(node: Node, world: World) -> list[Draft]:
    base = _draft(node, world)
    found = kubeai_model(base.name, base.line, node.get("spec"), world)
    return [found] if found else read_pods(node, world)


def _kthena(node: Node, world: World) -> list[Draft]:
    found = []
    spec = node.get("spec")
    backends = [spec.get("backend"), *spec.get("backends").each()]
    for backend in backends:
        for worker in backend.get("workers").each():
            container = kubernetes_container(worker, world)
            engine = container.image.engine or engine_name(backend.get("type").text)
            if engine is None:
                continue
            draft = container.draft
            kind = worker.get("type")
            draft.name = kind.text or backend.get("name").text
            if not container.read():
                told = worker.get("image") if worker.get("image") else backend.get("type")
                container.start(engine, told.place())
            read_options(engine, worker.get("config"), draft)
            if not draft.has("model"):
                draft.read("model", backend.get("modelURI"))
            draft.read("nodes", worker.get("pods"))
            replicas = worker.get("replicas")
            draft.read("replicas", replicas if replicas else backend.get("minReplicas"))
            read_selectors(worker, draft)
            found.append(draft)
    return found or read_pods(node, world)


def _nim_service(node: Node, world: World) -> list[Draft]:
    spec = node.get("spec")
    scope = world.environment(spec)
    base = _draft(node, world)
    container = Container(base.name, node.place(), world, scope)
    container.draft.line = base.line
    image = spec.get("image")
    container.read_image(image.get("repository"), image.get("tag"))
    container.start("nim", image.get("repository").place())
    draft = container.draft
    cache = spec.get("storage", "nimCache", "name").text
    source = next(
        (
            other.get("spec", "source", "hf")
            for other in world.documents
            if other.get("kind").data == "NIMCache" and other.get("metadata", "name").data == cache
        ),
        None,
    )
    if source and source.get("modelName"):
        draft.read("model", source.get("modelName"))
    elif not draft.has("model"):
        draft.read("model", image.get("repository"))
    read_resources(spec.get("resources"), draft)
    read_selectors(spec, draft)
    replicas = spec.get("replicas")
    draft.read("replicas", replicas if replicas else spec.get("scale", "hpa", "minReplicas"))
    return [draft]


def _vllm_runtime(node: Node, world: World) -> list[Draft]:
    spec = node.get("spec")
    deployment = spec.get("deploymentConfig")
    base = _draft(node, world)
    container = Container(base.name, node.place(), world, world.environment(spec))
    container.draft.line = base.line
    draft = container.draft
    image = deployment.get("image")
    if image.is_map:
        registry = image.get("name") if image.get("name") else image.get("repository")
        container.read_image(registry, image.get("tag"))
    else:
        container.read_image(image)
    config = spec.get("vllmConfig")
    stack_options(spec.get("model"), draft)
    stack_options(config, draft)
    draft.read("model", spec.get("model", "modelURL"))
    container.add_words(config.get("extraArgs"))
    container.start("vllm", node.get("kind").place())
    read_resources(deployment.get("resources"), draft)
    read_selectors(deployment, draft)
    replicas = deployment.get("replicas")
    draft.read("replicas", replicas if replicas else spec.get("replicas"))
    return [draft]


_STACK = {
    "tensorParallelSize": "tp", "pipelineParallelSize": "pp", "dataParallelSize": "dp",
    "maxModelLen": "max_model_len", "maxNumSeqs": "max_num_seqs",
    "maxNumBatchedTokens": "max_num_batched_tokens", "gpuMemoryUtilization": "gpu_memory_fraction",
    "kvCacheDtype": "kv_cache_dtype", "quantization": "quantization",
}  # fmt: skip


def stack_options(node: Node, draft: Draft) -> None:
    """vLLM's options in the production stack's spelling."""
    for key, fact in _STACK.items():
        draft.read(fact, node.get(key))


def _kaito(node: Node, world: World) -> list[Draft]:
    draft = _draft(node, world)
    inference = node.get("inference")
    if not inference:
        return read_pods(node, world)
    preset = inference.get("preset", "name")
    if not preset.is_scalar:
        return read_pods(node, world)
    draft.put("engine", "vllm", preset.place(), "preset")
    config = world.config(inference.get("config").text)
    if config is not None:
        for value in [value for _, value in config.items()]:
            for inner in value.inner():
                options = inner.get("vllm")
                if options.is_map:
                    draft.put("engine", "vllm", options.place(key=True), "config")
                    read_options("vllm", options, draft)
    draft.read("model", preset)
    draft.read("gpu_type", node.get("resource", "instanceType"))
    count = node.get("resource", "count")
    draft.read("nodes", count)
    return [draft]


_READERS: dict[str, Callable[[Node, World], list[Draft]]] = {
    "InferenceService": _inference_service,
    "LLMInferenceService": _llm_service,
    "Model": _kubeai,
    "ModelBooster": _kthena,
    "NIMService": _nim_service,
    "VLLMRuntime": _vllm_runtime,
    "Workspace": _kaito,
}
