"""Which device a layer lies on: blocks 0 .. L and the output, cut by cumulative shares.

    first on a device   L + 1 - n_gpu_layers (L counts draft layers; the output is number L)
    device of number i  the first whose cumulative share exceeds (i - first) / layers on devices

Both in float32, as the engine computes them. Caches lie beside their layers unless
--no-kv-offload keeps all of them on the host.
Source: llama.cpp b11434, src/llama-model.cpp load_tensors.
"""

from __future__ import annotations

from struct import pack, unpack

HOST = -1


def _single(value: float) -> float:
    """The nearest float32."""
    return float(unpack("f", pack("f", value))[0])


def placed(blocks: int, n_gpu_layers: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The device of each block and, last, of the output; `HOST` for what no device has.

    Args:
        blocks: layers, draft layers among them.
        n_gpu_layers: how many of the last ones, the output counted, lie on devices.
        shares: of each device, in proportion.
    """
    ends, total = [], 0.0
    for share in shares:
        total = _single(total + _single(share))
        ends.append(total)
    ends = [_single(end / total) for end in ends]
    first = max(blocks + 1 - n_gpu_layers, 0)
    active = min(n_gpu_layers, blocks + 1)
    found = []
    for number in range(blocks + 1):
        if number < first or number - first >= active:
            found.append(HOST)
            continue
        at = _single((number - first) / active)
        found.append(next((i for i, end in enumerate(ends) if end > at), len(ends) - 1))
    return tuple(found)
