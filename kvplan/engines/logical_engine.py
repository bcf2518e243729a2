"""The logical cache as an engine: what a model must keep, asked like every other.

Its figure is of the whole model, whatever the ranks; its layout divides the tensors among them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kvplan.engines.base import Engine, Prepared
from kvplan.engines.kit.staircase import Staircase
from kvplan.engines.layout import CacheLayout, Plan, with_tensors
from kvplan.engines.request import cache_dtypes, context_of
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.steps import total

if TYPE_CHECKING:
    from kvplan.engines.request import Request
    from kvplan.spec.model import ModelSpec

UNSHARDED = "unsharded"


class LogicalEngine(Engine):
    """No engine at all: exactly what `size` calls logical."""

    name: ClassVar[str] = "logical"
    versions: ClassVar[tuple[str, ...]] = ("",)
    whole_model: ClassVar[bool] = True

    def split_args(self, text: str) -> dict[str, str]:
        """Refuse: the logical cache has no engine, and so no flags.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"logical has no flags of its own, so not {text!r}")

    def prepare(self, spec: ModelSpec, request: Request, version: str = "") -> PreparedLogical:
        """The logical cache of a model.

        Raises:
            UsageError: a version.
        """
        if version:
            raise UsageError(f"logical has no versions, so {version!r} is none of them")
        return PreparedLogical(spec, request)


class PreparedLogical(Prepared):
    """The logical cache of one model in one format."""

    def __init__(self, spec: ModelSpec, request: Request) -> None:
        self.spec = spec
        self.request = request

    @cached_property
    def staircase(self) -> Staircase:
        """Bytes of the whole model: each state's entries times the bytes of one."""
        spec, request = self.spec, self.request
        dtypes = cache_dtypes(spec, request)
        encoder = request.encoder_tokens or spec.encoder_tokens
        return Staircase(
            steps=total(
                (layers * state.entry_bytes(dtypes), state.steps(encoder))
                for _, states, layers in spec.counted_kinds(with_draft=request.with_draft)
                for state in states
            )
        )

    def _asked(self, ctx: int | None, batch: int) -> Request:
        return self.request.replaced(ctx=ctx, batch=batch)

    def plan(self, ctx: int | None, batch: int) -> Plan:
        tokens = context_of(self.spec, self._asked(ctx, batch))
        return Plan(
            engine=LogicalEngine.name,
            version="",
            whole_model=True,
            peak_bytes=self.staircase.at(tokens, batch),
            notices=_unsharded(self.request),
        )

    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        """The tensors, divided among the ranks.

        Raises:
            UsageError: decode context parallelism.
        """
        from kvplan.engines.logical_layout import tensors_of_ranks

        runs = tensors_of_ranks(self.spec, self._asked(ctx, batch))
        return with_tensors(self.plan(ctx, batch), runs)

    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        """The plan: the logical cache makes nothing of spare memory."""
        return self.plan(ctx, batch)


def _unsharded(request: Request) -> tuple[Notice, ...]:
    ranks = {name: getattr(request, name) for name in ("tp", "pp", "dp", "dcp")}
    given = [f"--{name} {count}" for name, count in ranks.items() if count > 1]
    if not given:
        return ()
    message = (
        f"{' '.join(given)} changes nothing: the logical figure is of the whole model;"
        " --engine NAME shows what a rank holds"
    )
    return (Notice(UNSHARDED, message),)
