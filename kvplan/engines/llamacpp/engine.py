"""llama.cpp and what runs on it: llama-server, and LM Studio, whose runtime it is.

`ctx` is the whole context (`-c`) and `batch` the slots (`-np`) that divide it, or share it with
`--kv-unified`. What LM Studio's own panel predicts before it loads is another figure, and not
modelled.
"""

from __future__ import annotations

from typing import ClassVar

from kvplan.engines.base import Engine
from kvplan.engines.llamacpp import flags, settings, versions
from kvplan.engines.llamacpp.prepared import PreparedLlamacpp
from kvplan.engines.request import Request
from kvplan.spec.model import ModelSpec


class LlamacppEngine(Engine):
    """llama.cpp's contexts, as llama-server makes them."""

    name: ClassVar[str] = "llamacpp"
    versions: ClassVar[tuple[str, ...]] = versions.KNOWN

    def split_args(self, text: str) -> dict[str, str]:
        """A line of llama-server's flags as options; see `flags`.

        Raises:
            UsageError: a flag that it lacks or that is not modelled.
        """
        return flags.split_args(text)

    def settled(self, request: Request) -> Request:
        """The request with -c, -np, -ctk and -ctv in its own fields.

        Raises:
            UsageError: flags that contradict the request.
        """
        return settings.settled(request)

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The cache's own format: the model's is not asked."""
        return settings.formats_of(settings.settled(request))[0].name

    def prepare(self, spec: ModelSpec, request: Request, version: str = "") -> PreparedLlamacpp:
        """A model under llama-server's flags.

        Raises:
            UsageError: an option that it does not have, or a value that is not modelled.
        """
        rules = versions.settle(version)
        found = settings.read_settings(settings.settled(request))
        batch, graph = found.n_batch or 2048, found.n_ubatch or 512
        return PreparedLlamacpp(
            self.name, spec, found, rules, lambda ctx, slots: (ctx, batch, graph)
        )


class LmstudioEngine(LlamacppEngine):
    """LM Studio: what its llama.cpp runtime allocates; its panel's estimate is not modelled."""

    name: ClassVar[str] = "lmstudio"
