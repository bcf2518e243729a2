"""An engine would not start: a stable code, its exception's type, kvplan's sentence, the figures.

The code says which rule it was, in every release and for every engine alike: scripts and tests hold
on to it. The sentence is kvplan's own and names the numbers and what would help; what the engine
itself prints is never repeated. The figures are the numbers of the sentence, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kvplan.record import Record

# code -> when it is given; docs/refusals.md lists the same.
CODES = {
    # Memory
    "kv-too-small": "the cache of one request of max_model_len is larger than the memory for it",
    "no-memory": "nothing is left for the cache, not even the block that no request may use",
    "footprint-above-memory": "the pool asked for and its buffers are larger than the memory",
    "mamba-blocks-below-max-num-seqs": "with full CUDA graphs, fewer blocks than sequences",
    "length-above-limit": "the sequences are longer than max_model_len",
    # Lengths and batches
    "length-above-model": "max_model_len is above what the checkpoint allows",
    "bad-value": "an option has a value that the engine does not take for this model",
    "batched-tokens-below-max-model-len": "a prompt that may not be cut exceeds one step",
    "batched-tokens-below-max-num-seqs": "a step has fewer tokens than there are sequences",
    "mamba-prefix-caching": "the release cannot cache prefixes of a model with states",
    "auto-fit-not-in-release": "the release does not fit the length to the memory for -1",
    "argument-not-in-release": "the release does not have this option",
    "mamba-block-size-without-prefix-caching": "a block size of states without prefix caching",
    # Parallelism
    "heads-not-divisible": "attention, KV or state heads do not divide among the ranks",
    "state-groups-not-divisible": "groups of a Mamba 2 state do not divide among the ranks",
    "state-not-divisible": "channels of a recurrent state do not divide among the ranks",
    "dcp-not-possible": "decode context parallelism finds no spare ranks or unequal heads",
    "pipeline-unsupported": "the model's class cannot be split into pipeline stages",
    "partition-not-valid": "the layers of the pipeline stages are not those of the model",
    "stage-without-cache": "a pipeline stage has no layer with a cache",
    "kv-sharing-target": "a layer reads the cache of a layer on another pipeline stage",
    # Models
    "unsupported-architecture": "no release, or not this one, has a class for the architecture",
    "architecture-moved-to-plugin": "a plugin serves the architecture, vllm itself no longer",
    "architecture-removed": "a later release than the last that had the architecture",
    "layer-kind-unsupported": "the engine has no layer or cache for a kind of layer",
    "draft-vocabulary-differs": "the draft model speaks another vocabulary",
    # Formats and kernels
    "format-not-for-model": "the cache format does not go with the model or its format",
    "kv-cache-dtype-unsupported": "the release has no kernel for the cache format here",
    "kv-cache-dtype-required": "the model's only cache format has to be asked for by name",
    "quantization-unsupported": "the release does not read the checkpoint's weight format",
    "no-attention-backend": "no attention backend of the release serves the layer",
    "head-size-unsupported": "no kernel of the release takes heads of this size",
    "format-not-on-device": "the device has no kernel for the cache format",
    "state-format-unsupported": "the state's kernel does not take this format",
    "no-backend": "no attention backend serves the layer; the reason of each is in the figures",
    "block-size-unsupported": "no block size suits every attention backend",
    "padded-page-below-page": "an unquantised page is smaller than the quantised one around it",
    # Groups and layouts of the pool
    "mixed-local-layers": "local layers that cannot be stored like full attention",
    "latent-window-as-full": "windows over latents that cannot be stored like full attention",
    "release-bug-assert": "the release fails at an assertion of its own",
    "config-not-readable": "the release's libraries cannot read the checkpoint's config",
    "page-sizes-differ": "pages of the layers' kinds cannot be brought to one size",
    "layout-unknown": "not an order of the pool's dimensions that the engine has",
    "layout-unsupported": "no order of the pool's dimensions suits every backend and group",
    # Contexts of llama.cpp
    "too-many-sequences": "more sequences than a context can hold",
    "outputs-above-maximum": "more sequences than one call holds tokens",
    "k-and-v-types-differ": "keys and values of a latent are one vector and need one format",
    "quantised-v-without-flash-attention": "V is transposed without flash attention, so not packed",
    "block-does-not-divide-head": "the blocks of a packed format do not divide every head",
    "block-does-not-divide-row": "the blocks of a packed format do not divide a row",
    "graph-assertion": "the sequences cannot be split into streams of this graph",
    "draft-layout-not-supported": "the draft layers' tensors are in an order that is not read",
    # Caches of transformers
    "quantization-unknown": "not a backend of a quantised cache",
    "quantization-option": "the quantised cache's backend does not take this option or value",
    "quantization-groups": "elements do not divide into groups",
    "cache-needs-config": "a layer of this kind needs a cache that was made from the config",
}


class Refusal(Record):
    """Why an engine would not start.

    Attributes:
        code: which rule, one of `CODES`.
        exception: the type of the engine's exception.
        message: kvplan's own sentence, with the numbers and what would help.
        figures: the numbers behind it; of backends the codes of what each lacks.
    """

    code: str
    exception: str
    message: str
    figures: Mapping[str, Any] = MappingProxyType({})

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not listed in CODES")


class Refused(Exception):
    """Raised while planning, caught by the engine; never leaves it.

    Args:
        code, exception, message, figures: of the refusal.
    """

    def __init__(self, code: str, exception: str, message: str, **figures: Any) -> None:
        super().__init__(message)
        self.refusal = Refusal(code=code, exception=exception, message=message, figures=figures)
