"""Recipes and job files of tools that start engines from a map of options.

srt-slurm         backend.vllm_config.{prefill,decode}, resources.*_nodes
vLLM recipes      model.model_id, variants.NAME
BentoML           args.{model_id, max_model_len, tp, cli_args}
vector-inference  models.NAME.{gpus_per_node, num_nodes, vllm_args}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.deployments.container import Container
from kvplan.deployments.draft import Draft
from kvplan.deployments.images import read_image
from kvplan.deployments.kinds.serving import engine_name
from kvplan.deployments.launch import read_options
from kvplan.deployments.node import Node
from kvplan.deployments.variables import Scope
from kvplan.deployments.world import World

_CONFIG = re.compile(r"(vllm|sglang|trtllm)_config")


def claims(node: Node) -> bool:
    """A mapping with the keys of one of these tools."""
    if not node.is_map or node.get("kind"):
        return False
    backend = node.get("backend").is_map and node.get("resources").is_map
    recipe = node.get("variants").is_map and node.get("model", "model_id").is_scalar
    bento = node.get("args", "model_id").is_scalar
    return backend or recipe or bento or any(True for _ in _vector(node))


def read(node: Node, world: World) -> list[Draft]:
    """The engines of the file."""
    if node.get("variants").is_map:
        return list(_variants(node, world))
    if node.get("backend").is_map:
        return list(_srt(node, world))
    if node.get("args", "model_id").is_scalar:
        return _bento(node.get("args"), world)
    return [_vector_model(name, model, world) for name, model in _vector(node)]


def _srt(node: Node, world: World) -> Iterator[Draft]:
    backend, resources, model = node.get("backend"), node.get("resources"), node.get("model")
    kind = backend.get("type")
    for name, config in backend.items():
        found = _CONFIG.fullmatch(name)
        if found is None:
            continue
        engine = engine_name(kind.text) or engine_name(found[1]) or "vllm"
        roles = [(role, config.get(role)) for role in ("prefill", "decode", "aggregated", "agg")]
        parts = [(role, part) for role, part in roles if part.is_map]
        for role, part in parts or [("", config)]:
            draft = Draft(f"{name}.{role}".rstrip("."), part.place(key=True)[0],
                          Scope(world.refs, world.host))  # fmt: skip
            draft.put("engine", engine, (kind if kind else config).place(), "backend")
            read_options(engine, part, draft)
            draft.drop("model") if draft.value("model") is None else None
            draft.read("model", model.get("path"))
            image = read_image(model.get("container").text)
            if image.engine and image.tag:
                draft.put("version", image.tag, model.get("container").place(), "container")
            draft.read("gpu_count", resources.get("gpus_per_node"))
            draft.read("gpu_type", resources.get("gpu_type"))
            side = "agg" if role.startswith("agg") else role
            draft.read("nodes", resources.get(f"{side}_nodes"))
            draft.read("replicas", resources.get(f"{side}_workers"))
            yield draft


def _variants(node: Node, world: World) -> Iterator[Draft]:
    model = node.get("model")
    for name, variant in node.get("variants").items():
        if not variant.is_map:
            continue
        container = Container(name, variant.place(key=True), world, Scope(world.refs, world.host))
        container.add_words(model.get("base_args"))
        container.add_words(variant.get("extra_args"))
        told = model.get("min_vllm_version")
        container.start("vllm", (told if told else model).place())
        draft = container.draft
        own = variant.get("model_id")
        draft.drop("model")
        draft.read("model", own if own else model.get("model_id"))
        draft.read("tp", variant.get("tp"))
        yield draft


def _bento(args: Node, world: World) -> list[Draft]:
    name = args.get("name")
    container = Container(name.text or "bento", (name if name else args).place(), world,
                          Scope(world.refs, world.host))  # fmt: skip
    container.add_words(args.get("cli_args"))
    connector = args.get("kv_transfer_config", "kv_connector")
    told = connector if connector else args.get("model_id")
    container.start("vllm", told.place())
    draft = container.draft
    for key, fact in (("model_id", "model"), ("max_model_len", "max_model_len"), ("tp", "tp"),
                      ("gpu_type", "gpu_type")):  # fmt: skip
        draft.read(fact, args.get(key))
    return [draft]


def _vector(node: Node) -> Iterator[tuple[str, Node]]:
    for name, model in node.get("models").items():
        if model.get("gpus_per_node") and (model.get("vllm_args") or model.get("engine_args")):
            yield name, model


def _vector_model(name: str, model: Node, world: World) -> Draft:
    draft = Draft(name, model.place(key=True)[0], Scope(world.refs, world.host))
    options = model.get("vllm_args")
    options = options if options else model.get("engine_args", "vllm")
    draft.put("engine", "vllm", options.place(key=True), "vllm_args")
    read_options("vllm", options, draft)
    draft.read("gpu_count", model.get("gpus_per_node"))
    draft.read("nodes", model.get("num_nodes"))
    return draft
