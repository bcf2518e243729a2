"""Builds of llama.cpp as data: the one followed, and what older builds did otherwise.

Two builds were run: b11434, to the byte, and b11549, whose server printed the same in 13 starts.
Older rules were read in the sources of bindings, which name no build: the build beside each change
is an estimate from its month, so no older build counts as read, and the answer says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.kit.versions import READ, Change, History
from kvplan.engines.layout import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds in one build.

    Attributes:
        version: the build whose rules these are.
        padding: cells are a multiple of this; with flash attention always of 256.
        windows: layers with a window have a cache of their own, smaller than the context.
        latent_values: a latent's V is stored beside its K, though it is a part of it.
        embedding_inputs: copies of the embedding-wide input that a graph has.
        mask_bytes: bytes of one entry of an attention mask under flash attention.
        server_outputs: a server's graph has as many outputs as slots, not as tokens.
        copies_in_buffer: the f16 copy of a quantised cache lies in the compute buffer.
        provenance: how the build was settled, when it is not one that was looked at.
    """

    version: str = "b4000"
    padding: int = 32
    windows: bool = False
    latent_values: bool = True
    embedding_inputs: int = 1
    mask_bytes: int = 4
    server_outputs: bool = False
    copies_in_buffer: bool = False
    provenance: tuple[Provenance, ...] = ()


HISTORY = History(
    engine="llamacpp",
    oldest=Rules(),
    changes=(
        Change(
            since="b5430",
            sentence="layers with a window keep the window, not the whole context",
            source="src/llama-kv-cache-iswa.cpp, in bindings of August 2025",
            how=READ,
            rules={"windows": True},
        ),
        Change(
            since="b7000",
            sentence="cells are a multiple of 256 without flash attention too",
            source="src/llama-context.cpp, in bindings of 2026",
            how=READ,
            rules={"padding": 256},
        ),
        Change(
            since="b7800",
            sentence="a latent is stored once: its V is a part of K",
            source="src/llama-kv-cache.cpp, in bindings of 2026",
            how=READ,
            rules={"latent_values": False},
        ),
        Change(
            since="b8100",
            sentence="a graph takes tokens and embeddings, so it has two inputs",
            source="figures that starts of February 2026 printed (b8173)",
            how=READ,
            rules={"embedding_inputs": 2},
        ),
        Change(
            since="b9600",
            sentence="attention masks are f16 under flash attention; a server's graph has an output"
            " for each slot; a quantised cache's f16 copy lies in the compute buffer",
            source="figures that starts from June 2026 on printed (b9665, b9849)",
            how=READ,
            rules={"mask_bytes": 2, "server_outputs": True, "copies_in_buffer": True},
        ),
        Change(
            since="b11000",
            sentence="batches mix tokens and embeddings: a graph has four inputs",
            source="src/llama-graph.cpp; figures of b10840 are those before",
            how=READ,
            rules={"embedding_inputs": 4},
        ),
    ),
    driven=("b11549", "b11434"),
)

FOLLOWED = "b11434"
KNOWN = (FOLLOWED, *(name for name in HISTORY.versions if name != FOLLOWED))


def settle(version: str) -> Rules:
    """The rules of a build (empty: the one followed), and where they come from.

    Raises:
        UsageError: not a build.
    """
    version = version or FOLLOWED
    claim = HISTORY.claim(version)
    rules = HISTORY.rules_of(version)
    sentence = claim.sentence
    if sentence is None:
        return rules
    later = HISTORY.changes_between(version, FOLLOWED)
    if later:
        sentence = (
            f"llamacpp {version} was not looked at, and the builds of older changes are estimates;"
            f" after it, by these, came: {'; '.join(row.sentence for row in later)}"
        )
    return replace(rules, provenance=(Provenance("version", rules.version, sentence),))
