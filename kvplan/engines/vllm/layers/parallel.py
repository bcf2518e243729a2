"""What tensor and pipeline parallelism leave to one rank.

    KV heads     kv / tp, or 1 (a copy) when there are more ranks than heads
    MLA          the same latent on every rank: never divided
    stages       n // pp layers each; the remainder goes one each to the stages before the last,
                 counting back from the last but one; VLLM_PP_LAYER_PARTITION overrides

Source: vllm 0.33.0, distributed/utils.py get_pp_indices and the model classes.
"""

from __future__ import annotations

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.families import Family


def kv_heads_of_rank(kv_heads: int, tp: int, family: Family) -> int:
    """KV heads that one rank stores.

    Raises:
        Refused: the heads neither divide the ranks nor are divided by them, or the family's class
            cannot copy heads.
    """
    if kv_heads >= tp:
        if kv_heads % tp:
            raise _uneven("AssertionError", kv_heads, tp, "do not divide among")
        return kv_heads // tp
    if not family.replicates_heads:
        raise _uneven("ZeroDivisionError", kv_heads, tp, "cannot be copied by this class to")
    if tp % kv_heads:
        raise _uneven("AssertionError", kv_heads, tp, "cannot be copied evenly to")
    return 1


def _uneven(exception: str, kv_heads: int, tp: int, how: str) -> Refused:
    message = f"{kv_heads} KV heads {how} {tp} tensor parallel ranks"
    return Refused("heads-not-divisible", exception, message, kv_heads=kv_heads, tp=tp)


def stage_sizes(
    layers: int, stages: int, partition: str | None, *, remainder_to_last: bool = False
) -> tuple[int, ...]:
    """Layers of each pipeline stage.

    Raises:
        Refused: a partition that vLLM would not take.
    """
    if partition is not None and stages > 1:
        try:
            sizes = tuple(int(part) for part in partition.split(","))
        except ValueError as error:
            raise _partition(
                f"VLLM_PP_LAYER_PARTITION={partition} is not a list of numbers"
            ) from error
        if len(sizes) != stages:
            raise _partition(
                f"VLLM_PP_LAYER_PARTITION has {len(sizes)} numbers for {stages} pipeline stages",
                numbers=len(sizes),
                pp=stages,
            )
        if sum(sizes) != layers:
            raise _partition(
                f"VLLM_PP_LAYER_PARTITION has {sum(sizes)} layers, the model has {layers}",
                partition_layers=sum(sizes),
                layers=layers,
            )
        return sizes
    sizes_ = [layers // stages] * stages
    if remainder_to_last:
        sizes_[-1] += layers % stages
        return tuple(sizes_)
    for back in range(layers % stages):
        # The last stage also holds the output head, so it is spared.
        sizes_[-(back + 2) if stages > 1 else -1] += 1
    return tuple(sizes_)


def _partition(message: str, **figures: int) -> Refused:
    return Refused("partition-not-valid", "ValueError", message, **figures)
