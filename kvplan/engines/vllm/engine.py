"""The vLLM engine: flags read, a version's rules chosen, a model prepared under them."""

from __future__ import annotations

from typing import ClassVar

from kvplan.engines.base import Engine
from kvplan.engines.kit.versions import READ
from kvplan.engines.layout import Provenance
from kvplan.engines.request import Request
from kvplan.engines.vllm.facts.dtype import model_dtype
from kvplan.engines.vllm.facts.versions import VERSIONS, Rules, claim_of, rules_of
from kvplan.engines.vllm.options.argline import split_engine_args
from kvplan.engines.vllm.options.asked import settled
from kvplan.engines.vllm.options.settings import read_settings
from kvplan.engines.vllm.planning import build
from kvplan.engines.vllm.prepared import PreparedVllm
from kvplan.spec.model import ModelSpec


class VllmEngine(Engine):
    """vLLM's planning rules; see the package for their order."""

    name: ClassVar[str] = "vllm"
    versions: ClassVar[tuple[str, ...]] = VERSIONS

    def split_args(self, text: str) -> dict[str, str]:
        """`--engine-args` as options; see `argline`.

        Raises:
            UsageError: a flag that is not in the table, or without its value.
        """
        return split_engine_args(text)

    def settled(self, request: Request) -> Request:
        """The request with vLLM's own flags for length, format and ranks in its fields.

        Raises:
            UsageError: flags that contradict the request, or that vLLM does not have.
        """
        return settled(request)

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The 16-bit format that vLLM gives a config without one; see `dtype.model_dtype`."""
        settings = read_settings(request, _rules(VERSIONS[0])[0])
        return model_dtype(spec, settings.model_dtype, settings.gpu)[0]

    def prepare(self, spec: ModelSpec, request: Request, version: str) -> PreparedVllm:
        """The model's layers, formats, blocks and groups, under one version's rules.

        Raises:
            UsageError: an option that vLLM does not have, or a value it cannot take.
        """
        rules, notes = _rules(version)
        # Without the request's ctx, `length` is --max-model-len alone.
        settings = read_settings(settled(request).replaced(ctx=None), rules)
        built = build(spec, settings, self.load_model)
        how = claim_of(version).how
        return PreparedVllm(built, dp=request.dp, notes=notes, how=how)


def _rules(version: str) -> tuple[Rules, tuple[Provenance, ...]]:
    rules, other = rules_of(version)
    claim = claim_of(version)
    notes = (Provenance("version", rules.version, other),) if other else ()
    if claim.how == READ and claim.sentence is not None:
        notes = (Provenance("rules", READ, claim.sentence),)
    return rules, notes
