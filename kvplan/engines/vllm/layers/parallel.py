"""What tensor and pipeline parallelism leave to one rank.

    KV heads     kv / tp, or 1 (a copy) when there are more ranks than heads
    MLA          the same latent on every rank: never divided
    stages       n // pp layers each; the remainder goes one each to the stages before the last,
                 counting back from the last but one; VLLM_PP_LAYER_PARTITION overrides

Source: vllm 0.33.0, distributed/utils.py get_pp_indices and the model classes.
"""

from __future__ import annotations

from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.refusal import Refused


def kv_heads_of_rank(kv_heads: int, tp: int, family: Family) -> int:
    """KV heads that one rank stores.

    Raises:
        Refused: the heads neither divide the ranks nor are divided by them, or the family's class
            cannot copy heads.
    """
    if kv_heads >= tp:
        if kv_heads % tp:
            why = f"{kv_heads} KV heads are not divisible by tensor parallel size {tp}"
            raise Refused("AssertionError", "", why)
        return kv_heads // tp
    if not family.replicates_heads:
        why = f"the model class cannot copy {kv_heads} KV heads to {tp} ranks"
        raise Refused("ZeroDivisionError", "integer modulo by zero", why)
    if tp % kv_heads:
        why = f"tensor parallel size {tp} is not divisible by {kv_heads} KV heads"
        raise Refused("AssertionError", "", why)
    return 1


def stage_sizes(layers: int, stages: int, partition: str | None) -> tuple[int, ...]:
    """Layers of each pipeline stage.

    Raises:
        Refused: a partition that vLLM would not take.
    """
    if partition is not None and stages > 1:
        try:
            sizes = tuple(int(part) for part in partition.split(","))
        except ValueError as error:
            raise Refused("ValueError", f"Invalid partition string: {partition}") from error
        if len(sizes) != stages:
            raise Refused(
                "ValueError", f"len(partitions)={len(sizes)} does not match pp_size={stages}."
            )
        if sum(sizes) != layers:
            raise Refused(
                "ValueError",
                f"sum(partitions)={sum(sizes)} does not match num_hidden_layers={layers}.",
            )
        return sizes
    sizes_ = [layers // stages] * stages
    for back in range(layers % stages):
        # The last stage also holds the output head, so it is spared.
        sizes_[-(back + 2) if stages > 1 else -1] += 1
    return tuple(sizes_)
