"""What an engine allocates: the one shape that every engine's answer has.

Arrows: (ModelSpec, Request) -> engine -> CacheLayout. `size` prints a CacheLayout, `verify`
allocates its tensors, `fit` inverts it; none of them knows an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.request import Request
from kvplan.notice import Notice
from kvplan.spec.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Tensor:
    """One allocation: its name, shape in elements, element type (a torch name) and bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RankLayout:
    """What one rank allocates, in the engine's order."""

    rank: int
    tensors: tuple[Tensor, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all tensors of this rank."""
        return sum(tensor.bytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Provenance:
    """A value the engine settled by itself: which option, what it became, and by which rule."""

    option: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """An engine's answer to a request.

    Attributes:
        engine, version: whose rules these are, e.g. `vllm`, `0.33.0`; another version that was
            asked for is in the notices.
        ranks: what each rank allocates.
        refusal: why it would not start, else None.
        provenance: every default the engine applied.
        figures: the engine's own figures by the contract's names (num_blocks, block_size,
            capacity_tokens, max_concurrency, needed_bytes_one_request, ...). An engine that holds
            more for a moment than in the end says so in `peak_bytes`, of the fullest rank.
        reasons: sentences that say why this differs from the logical cache.
        notices: what the user should know: rules of another version, a format of the engine alone.
    """

    engine: str
    version: str
    ranks: tuple[RankLayout, ...]
    refusal: Refusal | None = None
    provenance: tuple[Provenance, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes over all ranks."""
        return sum(rank.bytes for rank in self.ranks)

    @property
    def peak_bytes(self) -> int:
        """The most that the fullest rank ever holds: what has to fit."""
        largest = max((rank.bytes for rank in self.ranks), default=0)
        return int(self.figures.get("peak_bytes", largest))


def version_notices(provenance: tuple[Provenance, ...]) -> tuple[Notice, ...]:
    """The warning that other rules were used than those of the version asked for, if so."""
    return tuple(
        Notice("engine-version", item.origin) for item in provenance if item.option == "version"
    )


class Engine(Protocol):
    """What every engine offers."""

    name: str
    versions: tuple[str, ...]  # newest first

    def split_args(self, text: str) -> dict[str, str]:
        """A line of the engine's own flags as `Request.options`.

        Raises:
            UsageError: a flag that the engine, or kvplan, does not know.
        """

    def settled(self, request: Request) -> Request:
        """The request with what the engine's own flags say about its shared fields written there.

        Raises:
            UsageError: flags that contradict the request, or that the engine does not have.
        """

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The format that the engine gives a model whose config names none, if it settles one."""

    def layout(self, spec: ModelSpec, request: Request, version: str) -> CacheLayout:
        """What `request` makes this engine allocate."""

    def fit(
        self, spec: ModelSpec, request: Request, version: str, available_bytes: int
    ) -> CacheLayout:
        """What this engine allocates out of `available_bytes` per rank for one request's needs."""


def spec_beside(engine: Engine, spec: ModelSpec, request: Request) -> ModelSpec:
    """The spec for the logical figure that stands beside an engine's.

    A config may leave its format open where the engine settles it; the two figures are then in the
    same one.
    """
    own = engine.own_dtype(spec, request) if spec.dtype is None else None
    return spec if own is None else spec.replaced(dtype=own)
