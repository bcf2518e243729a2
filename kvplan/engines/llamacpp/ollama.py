"""Ollama, as it starts llama-server: a request's ctx is num_ctx, its batch OLLAMA_NUM_PARALLEL.

    -c num_ctx x parallel   -np parallel   -b = -ub = num_batch   both cache types alike, split

    num_ctx     as asked, at most what the model was trained for; else by the devices' memory,
                OLLAMA_GPU_OVERHEAD taken off: 262,144 from 47 GiB, 32,768 from 23 GiB, else 4,096
    num_batch   512; 1,024 above 4,096 tokens in all slots, 2,048 above 32,768. It is lowered where
                memory is short, which is not followed; without flash attention it stays 512

Flags are OLLAMA_* settings and the parameters of a Modelfile. Older releases ran models with code
of their own, which is not modelled. Source: ollama of August 2026 (0.32, over llama.cpp b10488),
llm/llama_server.go, server/routes.go, server/sched.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from kvplan.engines.base import Engine
from kvplan.engines.kit import argline
from kvplan.engines.kit.flags import Flag
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import natural, positive
from kvplan.engines.kit.versions import READ, Change, History
from kvplan.engines.kit.words import split_words
from kvplan.engines.layout import Provenance
from kvplan.engines.llamacpp import versions
from kvplan.engines.llamacpp.flags import ALL_LAYERS, flash
from kvplan.engines.llamacpp.prepared import Lengths, PreparedLlamacpp
from kvplan.engines.llamacpp.settings import Settings, formats_of, one_rank
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.spec.model import ModelSpec
from kvplan.units import GIB

# Memory of all devices, in GiB, and the num_ctx that it gives.
CONTEXTS = ((47, 262_144), (23, 32_768), (0, 4096))
_BUILD = "b10488"
HISTORY = History(
    engine="ollama",
    oldest=versions.Rules(version="0.32.13"),
    changes=(
        Change(
            since="0.32.0",
            sentence="models are run by llama.cpp's own server",
            source="llm/llama_server.go",
            how=READ,
            rules={},
        ),
    ),
    driven=(),
    read=("0.32.13",),
)
_FIRST = "0.32.0"


def _layers(text: str) -> int:
    count = int(text)
    return ALL_LAYERS if count < 0 else count


def _row(name: str, spellings: str, read: Callable[[str], Any], default: Any = None) -> Flag:
    return Flag(
        name=name, spellings=tuple(spellings.split()), read=read, default=default, origin="Ollama"
    )


def _text(text: str) -> str:
    return text.strip()


TABLE = Table(
    engine="ollama",
    flags=(
        _row("num_ctx", "--num-ctx", positive),
        _row("num_batch", "--num-batch", positive),
        _row("num_gpu", "--num-gpu", _layers, -1),
        _row("gpu", "--gpu", _text),
        _row("OLLAMA_CONTEXT_LENGTH", "", natural, 0),
        _row("OLLAMA_NUM_PARALLEL", "", positive, 1),
        _row("OLLAMA_KV_CACHE_TYPE", "", _text, "f16"),
        _row("OLLAMA_FLASH_ATTENTION", "", flash),
        _row("OLLAMA_GPU_OVERHEAD", "", natural, 0),
    ),
    abbreviates=False,
    opposites=False,
    help="`ollama serve --help` lists Ollama's settings",
)


class OllamaEngine(Engine):
    """Ollama's contexts."""

    name: ClassVar[str] = "ollama"
    versions: ClassVar[tuple[str, ...]] = HISTORY.versions

    def split_args(self, text: str) -> dict[str, str]:
        """Settings and parameters as options: `OLLAMA_NUM_PARALLEL=4 num_ctx=8192 --num-gpu 20`.

        Raises:
            UsageError: one that Ollama does not have, or without a value.
        """
        words = [
            word._replace(text=f"--{word.text}") if word.text[:1].islower() and "=" in word.text
            else word
            for word in split_words(text)
        ]  # fmt: skip
        return argline.options(TABLE, argline.parse(TABLE, words))

    def settled(self, request: Request) -> Request:
        """The request with num_ctx, its slots and its format in its own fields.

        Raises:
            UsageError: settings that contradict the request, or that Ollama does not have.
        """
        values = TABLE.values(request.options)
        fields: dict[str, Any] = {}
        asked = values.get("num_ctx") or values.get("OLLAMA_CONTEXT_LENGTH") or None
        if request.ctx is None:
            fields["ctx"] = asked or default_context(values)
        elif asked not in (None, request.ctx):
            raise UsageError(f"num_ctx is {asked} among Ollama's settings, --ctx {request.ctx}")
        slots = values.get("OLLAMA_NUM_PARALLEL")
        if slots is not None:
            if request.batch not in (1, slots):
                raise UsageError(f"OLLAMA_NUM_PARALLEL is {slots}, --batch {request.batch}")
            fields["batch"] = slots
        kind = values.get("OLLAMA_KV_CACHE_TYPE")
        if kind is not None:
            if request.dtype.strip().lower() not in ("auto", kind.lower()):
                raise UsageError(f"OLLAMA_KV_CACHE_TYPE is {kind}, --dtype {request.dtype}")
            fields["dtype"] = kind
        return request.replaced(**fields) if fields else request

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The cache's own format: the model's is not asked."""
        return formats_of(self.settled(request))[0].name

    def prepare(self, spec: ModelSpec, request: Request, version: str = "") -> PreparedLlamacpp:
        """A model under Ollama's settings.

        Raises:
            UsageError: a setting that Ollama does not have, or a release that is not modelled.
        """
        one_rank(request, "Ollama")
        rules = settle(version)
        request = self.settled(request)
        values = TABLE.values(request.options)
        k, v, by_default = formats_of(request)
        if k != v:
            raise UsageError("Ollama stores K and V in one format", hint="give --dtype alone")
        plain = values.get("OLLAMA_FLASH_ATTENTION") is False
        settings = Settings(
            k=k,
            v=v,
            flash=False if plain else None,
            n_gpu_layers=values.get("num_gpu", ALL_LAYERS),
            provenance=_provenance(values, by_default=by_default),
        )
        lengths = _lengths(spec, values.get("num_batch"), flash=not plain)
        return PreparedLlamacpp(self.name, spec, settings, rules, lengths, _notices(values))


def settle(version: str) -> versions.Rules:
    """The rules of a release: those of the llama.cpp that it brings.

    Raises:
        UsageError: not a release, or one that ran models itself.
    """
    version = version or HISTORY.versions[0]
    if HISTORY.number(version) < HISTORY.number(_FIRST):
        raise UsageError(
            f"ollama {version} may run models with code of its own, which is not modelled",
            hint=f"releases from {_FIRST} on start llama.cpp's server",
        )
    claim = HISTORY.claim(version)
    note = Provenance("version", claim.release, claim.sentence or "")
    return replace(
        versions.HISTORY.rules_of(_BUILD),
        version=claim.release,
        provenance=() if claim.known else (note,),
    )


def default_context(values: Mapping[str, Any]) -> int:
    """num_ctx where nobody says: by the memory of all devices, the smallest if they are unknown.

    Raises:
        UsageError: no device answers to the name.
    """
    total = 0
    if values.get("gpu"):
        from kvplan.hardware.sets import find_devices

        for device, count in find_devices(values["gpu"]).kinds:
            found = device.driver_mib
            memory = device.total()
            each = found * 2**20 if found else memory.mid if memory else 0
            total += each * count
    total -= values.get("OLLAMA_GPU_OVERHEAD", 0)
    return next(length for gib, length in CONTEXTS if total >= gib * GIB or not gib)


def batch_of(tokens: int, *, flash: bool = True) -> int:
    """num_batch where nobody says, of all slots' tokens together."""
    if not flash or tokens <= 4096:
        return 512
    return 1024 if tokens <= 32_768 else 2048


def _lengths(spec: ModelSpec, num_batch: int | None, *, flash: bool) -> Lengths:
    def lengths(ctx: int, slots: int) -> tuple[int, int, int]:
        if spec.max_context is not None:
            ctx = min(ctx, spec.max_context)
        tokens = ctx * slots
        batch = num_batch or batch_of(tokens, flash=flash)
        return tokens, batch, batch

    return lengths


def _provenance(values: Mapping[str, Any], *, by_default: bool) -> tuple[Provenance, ...]:
    found = []
    if by_default:
        found.append(Provenance("OLLAMA_KV_CACHE_TYPE", "f16", "Ollama's default"))
    if "num_batch" not in values:
        found.append(Provenance("num_batch", "512 to 2048", "by the tokens of all slots"))
    return tuple(found)


def _notices(values: Mapping[str, Any]) -> tuple[Notice, ...]:
    if "num_batch" in values:
        return ()
    message = (
        "num_batch rises with the context and falls again where memory is short; the fall is not"
        " followed: num_batch=512 says it"
    )
    return (Notice("ollama-num-batch", message),)
