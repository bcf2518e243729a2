"""The text of `PYTORCH_CUDA_ALLOC_CONF`, read option by option.

    max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True

Options are `name:value`, joined by commas; white space does not count; the last of two equal names
wins. Limits follow torch 2.6 to 2.14 (c10/core/AllocatorConfig.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from kvplan.allocator import divisions
from kvplan.allocator.options import (
    SEGMENT_SIZE_ALLOWED_SINCE,
    AllocatorConfigError,
    Version,
    require_known,
)
from kvplan.allocator.rounding import LARGE_SEGMENT, MIB, OWN_SEGMENT_MIN, SMALL_SEGMENT
from kvplan.allocator.values import boolean, integer, number, refuse

Fields = dict[str, Any]  # of AllocatorConfig, as far as the text sets them

_OPTION = re.compile(r"([^,:\[\]]+):(\[[^\[\]]*\]|[^,:\[\]]+)(?:,|$)")


def read_options(text: str, version: Version) -> Fields:
    """The fields of AllocatorConfig that the text sets.

    Raises:
        AllocatorConfigError: naming the option, the value and what is allowed.
    """
    reader = _OptionReader(version)
    # the segment size is the lower limit of two other options, so it comes first
    for name, value in sorted(_split(text), key=lambda pair: pair[0] != "large_segment_size_mb"):
        require_known(name, version)
        reader.read(name, value)
    reader.check_pages()
    return reader.fields


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


class _OptionReader:
    """Turns one option after the other into fields; options without effect leave no trace."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.fields: Fields = {}
        self._readers: dict[str, Callable[[str, str], None]] = {
            "backend": self._backend,
            "expandable_segments": self._expandable_segments,
            "garbage_collection_threshold": self._garbage_collection,
            "large_segment_size_mb": self._large_segment,
            "max_non_split_rounding_mb": self._max_non_split_rounding,
            "max_split_size_mb": self._max_split,
            "per_process_memory_fraction": self._memory_fraction,
            divisions.NAME: self._divisions,
            "throw_on_cudamalloc_oom": self._rejects_early,
        }

    def read(self, name: str, value: str) -> None:
        if name in self._readers:
            self._readers[name](name, value)

    def check_pages(self) -> None:
        """Pages of expandable segments are whole pages of the driver, or every mapping fails."""
        if self.fields.get("expandable_segments") and self._segment % SMALL_SEGMENT:
            raise AllocatorConfigError(
                f"large_segment_size_mb:{self._segment // MIB} cannot be mapped by "
                "expandable segments",
                hint="the driver maps multiples of 2 MiB: choose an even number",
            )

    @property
    def _segment(self) -> int:
        size: int = self.fields.get("large_segment_bytes", LARGE_SEGMENT)
        return size

    def _backend(self, name: str, value: str) -> None:
        if value not in ("native", "cudaMallocAsync"):
            raise refuse(name, value, "native or cudaMallocAsync")
        self.fields["backend"] = value

    def _expandable_segments(self, name: str, value: str) -> None:
        self.fields["expandable_segments"] = boolean(name, value)

    def _rejects_early(self, name: str, value: str) -> None:
        self.fields["rejects_early"] = boolean(name, value)

    def _garbage_collection(self, name: str, value: str) -> None:
        threshold = number(name, value)
        if not 0 < threshold < 1:
            raise refuse(name, value, "a number above 0 and below 1")
        self.fields["garbage_collection_threshold"] = threshold

    def _memory_fraction(self, name: str, value: str) -> None:
        fraction = number(name, value)
        if not 0 <= fraction <= 1:
            raise refuse(name, value, "a number from 0 to 1")
        self.fields["memory_fraction"] = fraction

    def _divisions(self, name: str, value: str) -> None:
        before = self.fields.get(name, divisions.NONE)
        self.fields[name] = divisions.read_divisions(value, before, self.version)

    def _large_segment(self, name: str, value: str) -> None:
        size = integer(name, value) * MIB
        if size <= OWN_SEGMENT_MIN:
            raise refuse(name, value, f"a whole number above {OWN_SEGMENT_MIN // MIB}")
        self.fields["large_segment_bytes"] = size
        self.fields["max_non_split_rounding_bytes"] = size

    def _max_split(self, name: str, value: str) -> None:
        self.fields["max_split_bytes"] = self._at_least_a_segment(name, value)

    def _max_non_split_rounding(self, name: str, value: str) -> None:
        self.fields["max_non_split_rounding_bytes"] = self._at_least_a_segment(name, value)

    def _at_least_a_segment(self, name: str, value: str) -> int:
        size = integer(name, value) * MIB
        least = self._segment
        if self.version < SEGMENT_SIZE_ALLOWED_SINCE:
            least += MIB
        if size < least:
            raise refuse(name, value, f"a whole number from {least // MIB} on")
        return size
