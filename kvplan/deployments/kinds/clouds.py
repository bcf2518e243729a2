"""Task files of clouds and platforms: a script, and an accelerator as a string.

SkyPilot   resources.accelerators, num_nodes, envs, setup, run, service
dstack     resources.gpu, env, commands, image, replicas
Truss      base_image, docker_server.start_command or trt_llm, resources.accelerator
OCI        recipe_image_uri, recipe_container_command_args, recipe_node_shape
"""

from __future__ import annotations

import re

from kvplan.deployments.container import Container
from kvplan.deployments.draft import Draft
from kvplan.deployments.gpus import read_accelerator
from kvplan.deployments.images import read_image
from kvplan.deployments.kinds.scripts import read_script
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_INSTALLED = {
    "vllm": re.compile(r"\bvllm(?:\[[\w,-]+\])?==([\w.+!-]+)"),
    "sglang": re.compile(r"\bsglang(?:\[[\w,-]+\])?==([\w.+!-]+)"),
    "lmdeploy": re.compile(r"\blmdeploy==([\w.+!-]+)"),
    "tensorrt_llm": re.compile(r"\btensorrt[-_]llm==([\w.+!-]+)"),
}


def claims(node: Node) -> bool:
    """A task, a service, a truss or a blueprint."""
    if node.get("kind") or not node.is_map:
        return False
    sky = node.get("run").is_scalar and (node.get("resources") or node.get("setup"))
    stack = node.get("commands").is_list and node.get("type").is_scalar
    truss = node.get("docker_server").is_map or node.get("trt_llm").is_map
    return bool(sky or stack or truss or node.get("recipe_image_uri"))


def read(node: Node, world: World) -> list[Draft]:
    """The engines of the task."""
    if node.get("recipe_image_uri"):
        return _blueprint(node, world)
    if node.get("docker_server").is_map or node.get("trt_llm").is_map:
        return _truss(node, world)
    scope = Scope(world.refs, world.host)
    for name in ("envs", "env", "secrets"):
        world.add(scope, node.get(name))
    if node.get("run").is_scalar:
        return _sky(node, scope)
    return _dstack(node, scope)


def installed(engine: str, source: Node, draft: Draft) -> None:
    """The release that a `pip install engine==release` pins."""
    pattern = _INSTALLED.get(engine)
    text = source.text
    found = pattern.search(text) if pattern else None
    if found and not draft.has("version"):
        place = source.mapped().place(found.start(1))
        draft.put("version", found[1], place, "pip install")


def _image(node: Node, draft: Draft) -> None:
    """The version of an image that holds an engine."""
    if not node.is_scalar or draft.has("version"):
        return
    image = read_image(node.text)
    if image.engine is not None and image.tag and "$" not in node.text:
        draft.put("version", image.tag, node.place(), "image")


def _sky(node: Node, scope: Scope) -> list[Draft]:
    found = read_script(node.get("run").mapped(), scope)
    for draft in found:
        draft.name = node.get("name").text or draft.name
        installed(str(draft.value("engine")), node.get("setup"), draft)
        installed(str(draft.value("engine")), node.get("run"), draft)
        _image(node.get("resources", "image_id"), draft)
        read_accelerator(node.get("resources", "accelerators"), draft)
        if not draft.known("nodes"):
            draft.read("nodes", node.get("num_nodes"))
        service = node.get("service")
        least = service.get("replica_policy", "min_replicas")
        draft.read("replicas", least if least else service.get("replicas"))
    return found


def _dstack(node: Node, scope: Scope) -> list[Draft]:
    found: list[Draft] = []
    for command in node.get("commands").each():
        if command.is_scalar:
            found += read_script(command.mapped(), scope)
    for draft in found:
        draft.name = node.get("name").text or draft.name
        _image(node.get("image"), draft)
        installed(str(draft.value("engine")), node.get("commands").get(0), draft)
        gpu = node.get("resources", "gpu")
        if gpu.is_map:
            draft.read("gpu_type", gpu.get("name"))
            draft.read("gpu_count", gpu.get("count"))
        else:
            read_accelerator(gpu, draft)
        draft.read("nodes", node.get("nodes"))
        draft.read("replicas", node.get("replicas"))
    return found


def _truss(node: Node, world: World) -> list[Draft]:
    scope = Scope(world.refs, world.host)
    world.add(scope, node.get("environment_variables"))
    command = node.get("docker_server", "start_command")
    found = read_script(command.mapped(), scope) if command.is_scalar else []
    native = node.get("trt_llm")
    if not found and native.is_map:
        found = [_native(node, native, scope)]
    for draft in found:
        name = node.get("model_name")
        draft.name = name.text or draft.name
        draft.line = name.place()[0] if name else draft.line
        _image(node.get("base_image", "image"), draft)
        for requirement in node.get("requirements").each():
            installed(str(draft.value("engine")), requirement, draft)
        read_accelerator(node.get("resources", "accelerator"), draft)
    return found


def _native(node: Node, native: Node, scope: Scope) -> Draft:
    """Truss's own TensorRT-LLM: options under `build` and `runtime`, and patches of them."""
    draft = Draft("trt_llm", native.place(key=True)[0], scope)
    draft.put("engine", "tensorrt_llm", native.place(key=True), "trt_llm")
    build, runtime = native.get("build"), native.get("runtime")
    for part in (build, runtime, runtime.get("patch_kwargs")):
        read_options("tensorrt_llm", part, draft)
    for key, fact in (("tensor_parallel_count", "tp"), ("quantization_type", "quantization")):
        draft.read(fact, build.get(key))
    cache = build.get("kv_cache_free_gpu_mem_fraction")
    if not cache:
        cache = runtime.get("kv_cache_free_gpu_mem_fraction")
    draft.read("gpu_memory_fraction", cache)
    path = runtime.get("patch_kwargs", "model_path")
    cached = node.get("model_cache").get(0).get("repo_id")
    repository = build.get("checkpoint_repository", "repo")
    if path.is_scalar:
        draft.read("model", path)
        draft.read("model_source", cached)
    else:
        draft.drop("model")
        draft.read("model", repository)
    return draft


def _blueprint(node: Node, world: World) -> list[Draft]:
    scope = Scope(world.refs, world.host)
    world.add(scope, node.get("recipe_container_env"))
    name = node.get("deployment_name")
    container = Container(name.text or "recipe", name.place(), world, scope)
    container.read_image(node.get("recipe_image_uri"))
    container.add_words(node.get("recipe_container_command"), command=True)
    container.add_words(node.get("recipe_container_command_args"))
    draft = container.read()
    if draft is None:
        return []
    for key in ("recipe_nvidia_gpu_count", "recipe_amd_gpu_count"):
        draft.read("gpu_count", node.get(key))
    shape = node.get("mig_resource_request")
    draft.read("gpu_type", shape if shape else node.get("recipe_node_shape"))
    draft.read("replicas", node.get("recipe_replica_count"))
    return [draft]
