"""Which layers keep only a window, and of how many tokens.

The file gives the window (`attention.sliding_window`) and sometimes the layers
(`attention.sliding_window_pattern`: one bool per layer, or a period); the rest is the rule of the
architecture's row. Layers of multi-token prediction slide only where a pattern lists them
or the row says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.importers.gguf.architectures import Window
from kvplan.importers.gguf.keys import BUILD, RULE, Keys

SIZE, PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"
CHUNK = "attention.chunk_size"  # Ollama's own conversion of Llama 4


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a model.

    Attributes:
        size: tokens, None if every layer is full.
        slides: per layer, True where only `size` tokens are kept.
        chunk: the tokens are a chunk, not a window.
        origin: where size and layers come from.
    """

    size: int | None
    slides: tuple[bool, ...]
    chunk: bool = False
    origin: tuple[str, ...] = ()


def windows(keys: Keys, rule: Window | None, trunk: int, total: int) -> Windows:
    """Read the windows of `total` layers, of which `trunk` are not for prediction.

    Raises:
        ImportRefused: a window or pattern that the architecture needs is missing or contradicts it.
    """
    none = Windows(None, (False,) * total)
    if rule is None:
        return none
    size, origin = _size(keys, rule, trunk)
    if size is None:
        return none
    slides, how = _layers(keys, rule, trunk, total)
    if not any(slides):
        return none
    if rule.unused:
        keys.warn(
            "llama-cpp-differs",
            f"{keys.full(SIZE)} is {size}: the model keeps a window, {BUILD} keeps every token",
        )
    return Windows(size, slides, rule.chunk, (origin, how))


def _size(keys: Keys, rule: Window, trunk: int) -> tuple[int | None, str]:
    key = CHUNK if rule.chunk and keys.raw(SIZE) is None else SIZE
    size = keys.number(key, minimum=0 if rule.optional or rule.chunk else 1)
    if size == 0:
        return None, ""
    if size is not None:
        if rule.built_in not in (None, size):
            keys.warn(
                "llama-cpp-differs",
                f"{keys.full(key)} is {size}, {BUILD} takes {rule.built_in} whatever it says",
            )
        if rule.size_layers not in (None, trunk):
            keys.warn(
                "llama-cpp-differs",
                f"{keys.full(SIZE)} is {size}, {BUILD} uses it only in a model of"
                f" {rule.size_layers} layers and keeps every token here",
            )
        return size, keys.full(key)
    if rule.size is not None and rule.size_layers in (None, trunk):
        return rule.size, f"{rule.size} tokens: {RULE}"
    if not rule.optional:
        keys.refuse(SIZE, "is missing", hint="this architecture has layers that keep a window")
    if rule.dropped:
        keys.warn(
            "window-not-in-file",
            f"{keys.full(SIZE)} is absent, {BUILD}'s converter drops it: a model of this"
            " architecture may keep a window only, the figure is that of every token",
        )
    return None, ""


def _layers(keys: Keys, rule: Window, trunk: int, total: int) -> tuple[tuple[bool, ...], str]:
    listed = keys.raw(PATTERN)
    if rule.every:
        if listed is not None:
            keys.refuse(PATTERN, "is there, but every layer of this architecture slides")
        return (True,) * total, f"every layer: {RULE}"
    if listed is None and rule.period is None:
        keys.refuse(PATTERN, "is missing, so the layers that keep a window are not known")
    if listed is not None and (rule.period is None or not isinstance(listed, int)):
        pattern = [bool(item) for item in keys.array(PATTERN, (trunk, total))]
        return (*pattern, *[rule.draft] * (total - len(pattern))), keys.full(PATTERN)
    # A number is a period, 0 stands for all layers.
    period = keys.number(PATTERN, minimum=0)
    first = "first" if rule.dense_first else "last"
    if period is None:
        period = rule.period or 0
        how = f"the {first} of every {period} layers is full: {RULE}"
    else:
        how = keys.full(PATTERN)
    dense = 0 if rule.dense_first else period - 1
    slides = [period == 0 or layer % period != dense for layer in range(trunk)]
    return (*slides, *[False] * (total - trunk)), how
