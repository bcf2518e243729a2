"""A container image: which engine it holds, and which release.

The tag is given as it is written. It is the engine's release only where the image is the engine's
own; that is the judge's to say, not the reader's. `latest` says nothing, and neither does a digest.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Images around an engine that are none.
_BESIDE = re.compile(
    r"router|sidecar|proxy|gateway|exporter|controller|scheduler|operator|webui|downloader|"
    r"puller|benchmark|simulator|-sim\b|frontend|planner|ollama-init"
)
# NVIDIA's other microservices: no language models.
_NO_MODEL = re.compile(
    r"embed|rerank|retriev|riva|parakeet|canary|openfold|alphafold|diffdock|genmol|molmim|mpnn|"
    r"rfdiffusion|colabfold|msa-|/esm|/evo|ocr|page-elements|table-structure|graphic-elements|"
    r"yolox|flux|diffusion|trellis|maxine|audio2face|clip|guard-jailbreak|corrdiff|fourcastnet"
)
_ENGINES = (
    ("nim", re.compile(r"(^|/)nvcr\.io/nim/|^nim/")),
    ("sglang", re.compile(r"sglang")),
    ("tensorrt_llm", re.compile(r"tensorrt[-_]?llm|trt-?llm|tritonserver")),
    ("tgi", re.compile(r"text-generation-inference|/tgi\b|\btgi[-:]|text-generation-launcher")),
    ("lmdeploy", re.compile(r"lmdeploy")),
    ("llamacpp", re.compile(r"llama\.cpp|llama-cpp|llamacpp|llama-server")),
    ("ollama", re.compile(r"ollama")),
    ("huggingfaceserver", re.compile(r"kserve/huggingfaceserver")),
    ("vllm", re.compile(r"vllm|llm-d-(cuda|rocm|xpu|gaudi|hpu|cpu|aws|tpu)|ray-llm|lmcache")),
)
_SAYS_NOTHING = ("latest", "")


class Image(NamedTuple):
    """An image's engine, or None, and its tag, or None where it says nothing."""

    engine: str | None
    tag: str | None
    repository: str


def read_image(text: str) -> Image:
    """The engine and tag of an image reference whose variables have been followed."""
    text = text.strip().removeprefix("docker:").removeprefix("docker://").replace("#", "/")
    bare = text.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    name, _, tag = last.partition(":")
    repository = f"{head}{slash}{name}"
    engine = engine_of(repository)
    if engine is None and not _BESIDE.search(f"{name}:{tag}"):
        engine = engine_of(tag)  # an image of several engines says in its tag which
    return Image(engine, None if tag in _SAYS_NOTHING else tag, repository)


def engine_of(repository: str) -> str | None:
    """The engine that an image's name tells of."""
    lower = repository.lower()
    if _BESIDE.search(lower.rpartition("/")[2]):
        return None
    for engine, pattern in _ENGINES:
        if pattern.search(lower):
            return None if engine == "nim" and _NO_MODEL.search(lower) else engine
    return None
