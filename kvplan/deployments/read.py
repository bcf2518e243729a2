"""Which reader a file gets: by its name where that says, else by what its documents hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import Reading
from kvplan.deployments.kinds import (
    charts,
    clouds,
    compose,
    dynamo,
    llama_swap,
    options_map,
    pythons,
    ray,
    recipes,
    scripts,
    serving,
    small,
    units,
)
from kvplan.deployments.node import Node
from kvplan.deployments.pods import read_pods
from kvplan.deployments.variables import MARK
from kvplan.deployments.world import World
from kvplan.documents.from_yaml import read_stream
from kvplan.documents.policy import DEPLOYMENT

Reader = tuple[Callable[[Node], bool], Callable[[Node, World], list[Draft]]]

_KINDS: tuple[Reader, ...] = (
    (serving.claims, serving.read),
    (dynamo.claims, dynamo.read),
    (compose.claims, compose.read),
    (llama_swap.claims, llama_swap.read),
    (clouds.claims, clouds.read),
    (ray.claims, ray.read),
    (recipes.claims, recipes.read),
    (options_map.claims, options_map.read),
    (charts.claims, charts.read),
)
# A file without any of these words starts no engine: most of a tree is never parsed.
_HINTS = re.compile(
    r"vllm|sglang|tensorrt|trt-?_?llm|llama|text-generation|/tgi|lmdeploy|gguf|nvcr\.io/nim|"
    r"max[-_]?model[-_]?len|gpu[-_]memory|engine_kwargs|mem-fraction|modelURL|hf://|NIM_|"
    r"kv[-_]?cache|huggingfaceserver|LLMInference|llm-d|modelArtifact|inference|max_seq_len|LLMConfig|tensor[-_]parallel",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"\{\{-?\s*(?:if|range|with|include|define|template|end|\.Values|\$)")
HELM, KUSTOMIZE = "helm template . | kvplan check -", "kustomize build . | kvplan check -"


def read_file(text: str, name: str) -> Reading:
    """What a file holds.

    Args:
        text: its content.
        name: its path, for its suffix and for errors.
    """
    base = os.path.basename(name).lower()
    suffix = os.path.splitext(base)[1]
    if suffix == ".modelfile" or base.startswith("modelfile"):
        return _reading(small.read_modelfile(text))
    if _HINTS.search(text) is None:
        return Reading()
    text = MARK.sub("\ufffd", text)
    if suffix in (".sh", ".bash", ".slurm", ".sbatch", ".job") or text.startswith("#!"):
        return _reading(scripts.read(text))
    if suffix == ".py":
        return _reading(pythons.read(text))
    if suffix in (".service", ".container"):
        return _reading(units.read(text, base.rpartition(".")[0]))
    if suffix == ".pbtxt":
        return _reading(small.read_pbtxt(text))
    if suffix == ".env" or base.startswith(".env"):
        return _reading(small.read_settings(text))
    return _stream(text, name)


def _reading(drafts: list[Draft]) -> Reading:
    return Reading(deployments=tuple(draft.done() for draft in drafts))


def _stream(text: str, name: str) -> Reading:
    """A stream of YAML or JSON documents."""
    stream = read_stream(text, name, DEPLOYMENT)
    lines = text.split("\n")
    nodes = [
        Node(document.data, document, (), lines)
        for document in stream.documents
        if isinstance(document.data, dict)
    ]
    world = World(nodes)
    drafts: list[Draft] = []
    for node in nodes:
        drafts += _document(node, world)
    errors = tuple(str(error) for error in stream.errors)
    if not drafts and errors and "{{" in text:
        return Reading(render=HELM, errors=())
    if drafts == [] and any(_is_template(node) for node in nodes):
        return Reading(render=HELM)
    if any(_is_patch(node) for node in nodes) or any(
        node.get("kind").data in ("Kustomization", "Component") for node in nodes
    ):
        return Reading(render=KUSTOMIZE)
    return _reading(drafts).replaced(errors=errors)


def _document(node: Node, world: World) -> list[Draft]:
    for claims, read in _KINDS:
        if claims(node):
            found = read(node, world)
            if found or (claims is ray.claims and node.get("kind").data != "ConfigMap"):
                return found
    return read_pods(node, world)


def _is_template(node: Node) -> bool:
    return bool(node.get("kind")) and _TEMPLATE.search(str(node.get("metadata").data)) is not None


def _is_patch(node: Node) -> bool:
    """A workload without what the API server demands: a patch of one that stands elsewhere."""
    if node.get("kind").data not in ("Deployment", "StatefulSet", "DaemonSet"):
        return False
    spec = node.get("spec")
    pods = list(spec.get("template", "spec", "containers").each())
    return not spec.get("selector") and not any(pod.get("image") for pod in pods)
