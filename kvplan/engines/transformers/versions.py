"""Versions of transformers as data: the builds followed, and the boundaries between them.

Two builds were followed to the byte: 5.24.0 and 4.57.6. A version between them takes the rules of
the known build of its own major version, except where a boundary says more; one outside takes the
nearest known build. Both are a warning of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.engines.layout import Provenance
from kvplan.errors import UsageError

KNOWN = ("5.24.0", "4.57.6")  # newest first

# transformers 5.15: the MLA classes cache the latent and the rotary key; up to 5.14.1 (and in
# 4.57.6) they decompress to one K and one V vector per query head before the cache is updated.
MLA_COMPRESSED_SINCE = (5, 15)

# 5.x: one LinearAttentionLayer holds all recurrent states and keeps the matrix in float32, layers
# that read another layer's cache get K and V handed over outside it, `fp8` is a quantised backend,
# and a model that is not all full attention is refused by QuantizedCache.
REWRITTEN_SINCE = (5, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds in one version.

    Attributes:
        version: the version whose rules these are.
        mla_compressed: MLA layers cache the latent instead of K and V of every query head.
        legacy: the 4.x cache classes (one class per recurrent family).
        provenance: how the version was settled, when it is not one that was followed.
    """

    version: str
    mla_compressed: bool
    legacy: bool
    provenance: tuple[Provenance, ...] = ()


def parse(version: str) -> tuple[int, ...]:
    """Read `5.24.0` (a `v` in front and a suffix such as `.dev0` are tolerated).

    Raises:
        UsageError: there is no number in it.
    """
    found = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:[.\-+]?[a-z].*)?", version.strip().lower())
    if not found:
        raise UsageError(
            f"transformers version {version!r} is not a version", hint="write it as 5.24.0"
        )
    return tuple(int(part) for part in found.group(1).split("."))


def settle(version: str) -> Rules:
    """The rules of `version` (empty: the newest followed), and where they come from."""
    if not version:
        version = KNOWN[0]
    asked = parse(version)
    newest, oldest = parse(KNOWN[0]), parse(KNOWN[-1])
    chosen, note = ".".join(map(str, asked)), ""
    if _padded(asked) > _padded(newest):
        chosen = note = KNOWN[0]
    elif _padded(asked) < _padded(oldest):
        chosen = note = KNOWN[-1]
    elif chosen not in KNOWN:
        base = KNOWN[0] if asked >= REWRITTEN_SINCE else KNOWN[-1]
        note = f"{base}, with the boundary known between the builds followed (MLA, 5.15),"
    numbers = parse(chosen)
    message = f"transformers {version} is not known to kvplan; rules of {note} were used"
    return Rules(
        version=chosen,
        mla_compressed=numbers >= MLA_COMPRESSED_SINCE,
        legacy=numbers < REWRITTEN_SINCE,
        provenance=(Provenance("version", chosen, message),) if note else (),
    )


def _padded(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, 0, 0, 0)[:3]
