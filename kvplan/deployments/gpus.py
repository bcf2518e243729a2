"""How many accelerators a file asks for, and which.

Resources are counts with the maker's name; the type stands in node selectors, affinities, and in
strings such as `H100:4`, `nvidia-gpu-l4:1` or `{H200:8, H100:8}`. Several types to choose from name
none.
"""

from __future__ import annotations

import re

from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import UNRESOLVED
from kvplan.deployments.node import Node
from kvplan.documents.document import Place

_COUNTS = re.compile(
    r"(nvidia\.com/gpu(\.shared)?|amd\.com/gpu|google\.com/tpu|habana\.ai/gaudi\d?|"
    r"gpu\.intel\.com/\w+|aws\.amazon\.com/neuron(core|device)?|huawei\.com/ascend.*|"
    r"nvidia\.com/mig-[\w.]+|cloud-tpus\.google\.com/\w+|metax-tech\.com/gpu|mthreads\.com/gpu)",
    re.IGNORECASE,
)
_MIG = re.compile(r"nvidia\.com/(mig-[\w.]+)")
_TYPES = (
    "cloud.google.com/gke-accelerator", "cloud.google.com/gke-tpu-accelerator",
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.nvidia.com/model",
    "gpu.nvidia.com/class", "karpenter.k8s.aws/instance-gpu-name",
    "machine.cluster.vke.volcengine.com/gpu-name", "k8s.amazonaws.com/accelerator",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
    "aliyun.accelerator/nvidia_name", "nvidia.com/gpu.machine", "accelerator",
)  # fmt: skip
_NAMED = re.compile(r"\s*([\w!.+ -]*?[\w!])\s*(?::\s*(\d+))?\s*")


def read_resources(resources: Node, draft: Draft) -> None:
    """The count out of `resources`: limits before requests."""
    for part in (resources.get("limits"), resources.get("requests"), resources):
        for key, value in part.items():
            if (_COUNTS.fullmatch(key) or key == "gpu") and value.is_scalar:
                draft.read("gpu_count", value)
                if mig := _MIG.fullmatch(key):
                    draft.put("gpu_type", mig[1], value.place(key=True), key)
                return


def read_selectors(spec: Node, draft: Draft) -> None:
    """The type out of a pod's node selector or affinity."""
    if draft.has("gpu_type"):
        return
    selector = spec.get("nodeSelector")
    for name in _TYPES:
        if selector.get(name).is_scalar:
            draft.read("gpu_type", selector.get(name), name)
            return
    required = spec.get(
        "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )  # fmt: skip
    for terms in (required, spec.get("nodeSelectorTerms")):
        for term in terms.each():
            for expression in term.get("matchExpressions").each():
                _expression(expression, draft)


def _expression(expression: Node, draft: Draft) -> None:
    if expression.get("key").data not in _TYPES or expression.get("operator").data != "In":
        return
    values = list(expression.get("values").each())
    key = expression.get("key").text
    if len(values) == 1:
        draft.read("gpu_type", values[0], key)
    elif values:
        draft.put("gpu_type", None, values[0].place(), key, UNRESOLVED)


def read_accelerator(node: Node, draft: Draft) -> None:
    """`H100`, `H100:4`, `[H100:8]`, `{H200:8, H100:8}`: the type and, where it is said, the count.

    Of several alternatives the count is known where they all have the same.
    """
    found: list[tuple[str, str | None, Place]] = []
    if node.is_scalar:
        named = split_accelerator(draft.scope.refs.encode(node.mapped(), "kubernetes").text)
        found = [(*named, node.place())] if named else []
    elif node.is_list:
        for item in node.each():
            named = split_accelerator(item.text)
            found += [(*named, item.place())] if named else []
    else:
        for key, value in node.items():
            named = split_accelerator(key)
            count = value.text or (named[1] if named else None)
            found += [(named[0], count, value.place(key=True))] if named else []
    if not found:
        return
    kinds = {kind for kind, _, _ in found}
    counts = {count for _, count, _ in found}
    if len(kinds) == 1:
        draft.say("gpu_type", found[0][0], found[0][2], node.key)
    else:
        draft.put("gpu_type", None, found[0][2], node.key, UNRESOLVED)
    if len(counts) == 1 and found[0][1]:
        draft.say("gpu_count", found[0][1], found[0][2], node.key)


def split_accelerator(text: str) -> tuple[str, str | None] | None:
    """The name and the count of `NAME:COUNT`; a Kubernetes profile ends the same way."""
    name, colon, count = text.strip().rpartition(":")
    if colon and re.fullmatch(r"\d+|[\U000f0000-\U000fffff]", count):
        return name.strip(), count
    return (text.strip(), None) if text.strip() else None


def read_devices(devices: Node, draft: Draft, style: str) -> None:
    """Compose's reservations: `count`, which may be `all`, or the ids that are listed."""
    for device in devices.each():
        if device.get("count"):
            draft.read("gpu_count", device.get("count"), style=style)
            return
        ids = list(device.get("device_ids").each())
        if ids:
            draft.put("gpu_count", len(ids), ids[0].place(), "device_ids")
            return


def say_accelerator(text: str, place: Place, origin: str, draft: Draft) -> None:
    """`NAME:COUNT` out of a text whose references are marked."""
    named = split_accelerator(text)
    if named is None:
        return
    draft.say("gpu_type", named[0], place, origin)
    if named[1]:
        draft.say("gpu_count", named[1], place, origin)
