"""Versions of transformers as data: the builds followed, and the boundaries between them.

Two builds were followed to the byte: 5.24.0 and 4.57.6. A version between them takes the rules of
the known build of its own major version, except where a boundary says more; one outside takes the
nearest known build. Both are a warning of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.kit.versions import DRIVEN, READ, Change, History
from kvplan.engines.layout import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds in one version.

    Attributes:
        version: the version whose rules these are.
        mla_compressed: MLA layers cache the latent instead of K and V of every query head.
        legacy: the 4.x cache classes (one class per recurrent family).
        provenance: how the version was settled, when it is not one that was followed.
    """

    version: str = "4.57.6"
    mla_compressed: bool = False
    legacy: bool = True
    provenance: tuple[Provenance, ...] = ()


HISTORY = History(
    engine="transformers",
    oldest=Rules(),
    changes=(
        Change(
            since="5.0.0",
            sentence="one class holds all recurrent states, with the matrix in float32; layers that"
            " read another layer's cache get K and V handed over outside it; fp8 is a quantised"
            " backend, and a quantised cache takes full attention only",
            source="cache_utils.py",
            how=DRIVEN,
            rules={"legacy": False},
        ),
        Change(
            since="5.15.0",
            sentence="latents are cached as such; up to 5.14.1 as one K and one V per query head",
            source="models/deepseek_v3/modeling_deepseek_v3.py",
            how=READ,
            rules={"mla_compressed": True},
        ),
    ),
    driven=("5.24.0", "4.57.6"),
)

KNOWN = HISTORY.versions  # newest first


def settle(version: str) -> Rules:
    """The rules of `version` (empty: the newest followed), and where they come from.

    Raises:
        UsageError: not a version.
    """
    version = version or KNOWN[0]
    asked = HISTORY.number(version)
    newest, oldest = KNOWN
    if asked > HISTORY.number(newest):
        chosen = note = newest
    elif asked < HISTORY.number(oldest):
        chosen = note = oldest
    elif HISTORY.claim(version).known:
        return HISTORY.rules_of(version)
    else:
        *numbers, last = asked.release
        chosen = ".".join(str(number) for number in (*numbers, *([last] if last else [])))
        base = oldest if HISTORY.rules_of(version).legacy else newest
        note = f"{base}, with the boundary known between the builds followed (MLA, 5.15),"
    message = f"transformers {version} is not known to kvplan; rules of {note} were used"
    provenance = (Provenance("version", chosen, message),)
    return replace(HISTORY.rules_of(chosen), version=chosen, provenance=provenance)
