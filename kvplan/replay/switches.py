"""Rules of the scheduler that older releases of vLLM lack.

Only 0.33.0 was driven step for step; the others were read in the sources of their release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """One field for each rule, as in the newest release.

    Attributes:
        caps_windows: the admission check counts no more of a window than it ever holds.
        unhashed_first: freed blocks without a hash are reused before all others; else every freed
            block goes to the end of the queue.
        processed_basis: a window is freed by what is settled, one step later than by what is
            scheduled.
        junctions: the end of a shared text is noted by the second request that has it.
        has_watermark: an admission can leave blocks free.
        driven: the release's own scheduler was run; else its sources were read.
    """

    caps_windows: bool = True
    unhashed_first: bool = True
    processed_basis: bool = True
    junctions: bool = True
    has_watermark: bool = True
    driven: bool = True


# Newest first: (first release that has the rule, what earlier ones do).
_CHANGES: tuple[tuple[tuple[int, int], dict[str, bool]], ...] = (
    ((0, 26), {"processed_basis": False, "junctions": False}),
    ((0, 24), {"has_watermark": False}),
    ((0, 23), {"unhashed_first": False}),
    ((0, 20), {"caps_windows": False}),
)
DRIVEN = (0, 33)
OLDEST = (0, 19)  # before, the scheduler differs in more than switches
RESERVES_FULL = (0, 19)
RETENTION_ZERO = (0, 30)  # prefix_cache_retention_interval is 0; before, all blocks are findable


def release_of(version: str) -> tuple[int, int]:
    """Major and minor number of a release: `0.33.0` is (0, 33)."""
    major, minor = version.removeprefix("v").split(".")[:2]
    return int(major), int(minor)


def switches_of(version: str) -> Switches:
    """The switches of a release."""
    release = release_of(version)
    found = Switches(driven=release == DRIVEN)
    for first, earlier in _CHANGES:
        if release < first:
            found = replace(found, **earlier)
    return found
