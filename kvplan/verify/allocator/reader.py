"""The text of `PYTORCH_CUDA_ALLOC_CONF`, read option by option.

    max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True

Options are `name:value`, joined by commas; white space does not count; the last of two equal names
wins. Limits follow torch 2.6 to 2.14 (c10/core/AllocatorConfig.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from kvplan.verify.allocator import divisions
from kvplan.verify.allocator.options import AllocatorConfigError, Version, require_known
from kvplan.verify.allocator.rounding import LARGE_SEGMENT, MIB, OWN_SEGMENT_MIN, SMALL_SEGMENT
from kvplan.verify.allocator.values import boolean, integer, number, refuse

Fields = dict[str, Any]  # of AllocatorConfig, as far as the text sets them

_OPTION = re.compile(r"([^,:\[\]]+):(\[[^\[\]]*\]|[^,:\[\]]+)(?:,|$)")


def read_options(text: str, version: Version) -> Fields:
    """The fields of AllocatorConfig that the text sets.

    Raises:
        AllocatorConfigError: naming the option, the value and what is allowed.
    """
    fields: Fields = {}
    # the segment size is the lower limit of two other options, so it comes first
    for name, value in sorted(_split(text), key=lambda pair: pair[0] != "large_segment_size_mb"):
        require_known(name, version)
        if name == divisions.NAME:
            before = fields.get(name, divisions.NONE)
            fields[name] = divisions.read_divisions(value, before, version)
        elif name in _READERS:
            _READERS[name](name, value, fields)
    _check_pages(fields)
    return fields


def _split(text: str) -> Iterator[tuple[str, str]]:
    """`a:1,b:[2:3]` -> (a, 1), (b, [2:3])."""
    rest = "".join(text.split())
    while rest:
        match = _OPTION.match(rest)
        if match is None:
            raise AllocatorConfigError(
                f"allocator options cannot be read at {rest!r}", hint="write name:value,name:value"
            )
        yield match[1], match[2]
        rest = rest[match.end() :]


def _read_backend(name: str, value: str, fields: Fields) -> None:
    if value not in ("native", "cudaMallocAsync"):
        raise refuse(name, value, "native or cudaMallocAsync")
    fields["backend"] = value


def _read_expandable_segments(name: str, value: str, fields: Fields) -> None:
    fields["expandable_segments"] = boolean(name, value)


def _read_rejects_early(name: str, value: str, fields: Fields) -> None:
    fields["rejects_early"] = boolean(name, value)


def _read_garbage_collection(name: str, value: str, fields: Fields) -> None:
    threshold = number(name, value)
    if not 0 < threshold < 1:
        raise refuse(name, value, "a number above 0 and below 1")
    fields["garbage_collection_threshold"] = threshold


def _read_memory_fraction(name: str, value: str, fields: Fields) -> None:
    fraction = number(name, value)
    if not 0 <= fraction <= 1:
        raise refuse(name, value, "a number from 0 to 1")
    fields["memory_fraction"] = fraction


def _read_large_segment(name: str, value: str, fields: Fields) -> None:
    size = integer(name, value) * MIB
    if size <= OWN_SEGMENT_MIN:
        raise refuse(name, value, f"a whole number above {OWN_SEGMENT_MIN // MIB}")
    fields["large_segment_bytes"] = size
    fields["max_non_split_rounding_bytes"] = size


def _read_max_split(name: str, value: str, fields: Fields) -> None:
    fields["max_split_bytes"] = _at_least_a_segment(name, value, fields)


def _read_max_non_split_rounding(name: str, value: str, fields: Fields) -> None:
    fields["max_non_split_rounding_bytes"] = _at_least_a_segment(name, value, fields)


def _at_least_a_segment(name: str, value: str, fields: Fields) -> int:
    size = integer(name, value) * MIB
    segment: int = fields.get("large_segment_bytes", LARGE_SEGMENT)
    if size < segment:
        raise refuse(name, value, f"a whole number from {segment // MIB} on")
    return size


def _check_pages(fields: Fields) -> None:
    """Pages of expandable segments are whole pages of the driver, or every mapping fails."""
    segment: int = fields.get("large_segment_bytes", LARGE_SEGMENT)
    if fields.get("expandable_segments") and segment % SMALL_SEGMENT:
        raise AllocatorConfigError(
            f"large_segment_size_mb:{segment // MIB} cannot be mapped by expandable segments",
            hint="the driver maps multiples of 2 MiB: choose an even number",
        )


_READERS: dict[str, Callable[[str, str, Fields], None]] = {
    "backend": _read_backend,
    "expandable_segments": _read_expandable_segments,
    "garbage_collection_threshold": _read_garbage_collection,
    "large_segment_size_mb": _read_large_segment,
    "max_non_split_rounding_mb": _read_max_non_split_rounding,
    "max_split_size_mb": _read_max_split,
    "per_process_memory_fraction": _read_memory_fraction,
    "throw_on_cudamalloc_oom": _read_rejects_early,
}
