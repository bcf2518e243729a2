"""Ray Serve LLM: `llm_configs`, LLMConfig files, RayService with YAML in a string, old RayLLM."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import ENV
from kvplan.deployments.gpus import read_resources, read_selectors
from kvplan.deployments.images import read_image
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_DEEPEST = 8


def claims(node: Node) -> bool:
    """A RayService, or a mapping that holds an LLMConfig."""
    kind = node.get("kind").data
    if kind in ("RayService", "RayCluster", "ConfigMap"):
        return True
    return kind is None and any(True for _ in _configs(node))


def read(node: Node, world: World) -> list[Draft]:
    """The engines of each configuration."""
    kind = node.get("kind").data
    if kind == "ConfigMap":
        inner = [doc for _, value in node.get("data").items() if _hints(value.text)
                 for doc in value.inner()]  # fmt: skip
        return [_engine(config, world, None) for doc in inner for config in _configs(doc)]
    if kind is None:
        return [_engine(config, world, None) for config in _configs(node)]
    if kind == "RayCluster":
        return []
    spec = node.get("spec")
    serve = spec.get("serveConfigV2")
    documents = serve.inner() if serve.is_scalar else [serve]
    found = []
    for document in documents:
        for application in document.get("applications").each():
            for config in _configs(application.get("args")):
                draft = _engine(config, world, application.get("import_path"))
                _cluster(spec.get("rayClusterConfig"), draft)
                found.append(draft)
            if not found:
                found += _coded(application, spec.get("rayClusterConfig"), world)
    return found


def _coded(application: Node, cluster: Node, world: World) -> list[Draft]:
    """An application in Python: read where its file is in this stream, else by its variables."""
    from kvplan.deployments.kinds.pythons import Value
    from kvplan.deployments.kinds.pythons import read as read_python

    variables = application.get("runtime_env", "env_vars")
    environment = {
        name: Value(value.text, value.place(), ENV)
        for name, value in variables.items()
        if value.is_scalar
    }
    path = application.get("import_path").text.partition(":")[0].replace(".", "/") + ".py"
    source = world.file(path)
    if source is not None:
        text = "\n" * (source.place()[0] - 1) + source.text
        found = read_python(text, environment)
    else:
        found = _by_variables(application, variables, cluster, world)
    deployment = application.get("deployments").get(0)
    for draft in found:
        name = deployment.get("name") if deployment else application.get("name")
        draft.name, draft.line = name.text or draft.name, (name if name else application).place()[0]
        least = deployment.get("autoscaling_config", "min_replicas")
        draft.read("replicas", least if least else deployment.get("num_replicas"))
        _cluster(cluster, draft)
        if not draft.has("gpu_count"):
            draft.read("gpu_count", deployment.get("ray_actor_options", "num_gpus"))
    return found


_VARIABLES = {
    "MODEL_ID": "model", "MODEL": "model", "MODEL_NAME": "model", "MAX_MODEL_LEN": "max_model_len",
    "TENSOR_PARALLELISM": "tp", "TENSOR_PARALLEL_SIZE": "tp", "PIPELINE_PARALLELISM": "pp",
    "PIPELINE_PARALLEL_SIZE": "pp", "MAX_NUM_SEQS": "max_num_seqs",
    "GPU_MEMORY_UTILIZATION": "gpu_memory_fraction",
}  # fmt: skip


def _by_variables(application: Node, variables: Node, cluster: Node, world: World) -> list[Draft]:
    told = application.get("import_path")
    images = [
        container.get("image").text
        for group in cluster.get("workerGroupSpecs").each()
        for container in group.get("template", "spec", "containers").each()
    ]
    if "vllm" not in told.text and not any(read_image(text).engine for text in images):
        return []
    draft = Draft("serve", told.place()[0], Scope(world.refs, world.host))
    draft.put("engine", "vllm", told.place(), "import_path")
    for name, fact in _VARIABLES.items():
        value = variables.get(name)
        if value.is_scalar and not draft.has(fact):
            draft.say(fact, value.text, value.place(), name, through=True)
    return [draft]


def _hints(text: str) -> bool:
    return "engine_kwargs" in text or "model_loading_config" in text


def _configs(node: Node, depth: int = 0) -> Iterator[Node]:
    """Every mapping that is an LLMConfig."""
    if depth > _DEEPEST:
        return
    if node.is_map and (
        node.get("engine_kwargs").is_map
        or node.get("model_loading_config").is_map
        or node.get("engine_config").is_map
    ):
        yield node
        return
    for value in [value for _, value in node.items()] + list(node.each()):
        if value.is_map or value.is_list:
            yield from _configs(value, depth + 1)


def _engine(config: Node, world: World, told: Node | None) -> Draft:
    old = config.get("engine_config")
    loading = config.get("model_loading_config")
    named = loading.get("model_id") if loading else old.get("model_id")
    draft = Draft(named.text or "llm", (named if named else config).place()[0],
                  Scope(world.refs, world.host))  # fmt: skip
    engine = config.get("llm_engine") if config.get("llm_engine") else old.get("type")
    place = engine.place() if engine else config.place()
    if not engine and told is not None and told.is_scalar:
        place = told.place()
    draft.put("engine", "vllm", place, "ray.serve.llm")
    arguments = (
        config.get("engine_kwargs") if config.get("engine_kwargs") else old.get("engine_kwargs")
    )
    read_options("vllm", arguments, draft)
    if not draft.has("model"):
        source = loading.get("model_source")
        source = source if source.is_scalar else old.get("hf_model_id")
        draft.read("model", source if source.is_scalar else named)
    draft.read("gpu_type", config.get("accelerator_type"))
    scaling = config.get("scaling_config")
    draft.read("gpu_count", scaling.get("num_gpus_per_worker"))
    for key, value in scaling.get("resources_per_worker").items():
        if key.startswith("accelerator_type"):
            draft.put("gpu_type", key.removeprefix("accelerator_type:"),
                      value.place(key=True), key)  # fmt: skip
    if not draft.has("tp"):
        draft.read("tp", config.get("tensor_parallelism", "degree"))
    if not draft.has("max_model_len"):
        longest = config.get("max_request_context_length")
        draft.read("max_model_len", longest if longest else old.get("max_total_tokens"))
    deployment = config.get("deployment_config")
    least = deployment.get("autoscaling_config", "min_replicas")
    replicas = deployment.get("num_replicas")
    draft.read("replicas", least if least else replicas)
    return draft


def _cluster(cluster: Node, draft: Draft) -> None:
    """The workers are the engine's nodes; the GPUs are a worker's."""
    for group in cluster.get("workerGroupSpecs").each():
        for container in group.get("template", "spec", "containers").each():
            read_resources(container.get("resources"), draft)
            image = read_image(container.get("image").text)
            if image.engine and image.tag:
                draft.put("version", image.tag, container.get("image").place(), "image")
        read_selectors(group.get("template", "spec"), draft)
        replicas = group.get("replicas")
        width = (draft.value("tp") or 1) * (draft.value("pp") or 1)
        count = draft.value("gpu_count")
        spans = isinstance(count, int) and isinstance(width, int) and width > count
        if spans and replicas.is_scalar:
            draft.read("nodes", replicas)
        return
