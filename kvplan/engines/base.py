"""How an engine is asked: prepare once, then plan as often as needed.

To add an engine, write these two classes in a room of its own under `engines/` and name them in
`engines/__init__.py`:

* `Engine` reads flags and settles what depends on neither length, batch nor memory:
  `prepare(spec, request, version)` picks the version's rules, reads the options, builds layers,
  groups and formats. What the engine refuses is not raised: it is a `Plan` with a `refusal`.
* `Prepared` answers for one length, batch or memory, cheaply and without side effects:

      plan(ctx, batch)      what the cache of that request takes: figures alone
      layout(ctx, batch)    the same with every tensor of every rank, and the reasons
      capacity(available)   what the engine makes of that many bytes on each rank
      staircase             the cost as a staircase (`engines.kit.staircase`), or None

A user's mistake (an option that does not exist, a missing fact) raises a `KvplanError`. Files of
other models are read through the `load_model` that the engine was made with: it knows the user's
own spec folders and whether the network may be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from kvplan.errors import UsageError

if TYPE_CHECKING:
    from typing import TypeVar

    from kvplan.engines.kit.staircase import Staircase
    from kvplan.engines.layout import CacheLayout, Plan
    from kvplan.engines.request import Request
    from kvplan.spec.model import ModelSpec

    P = TypeVar("P", bound="Plan")

LoadModel = Callable[[str], "ModelSpec"]


def no_other_model(name: str) -> ModelSpec:
    """The loader of an engine that was given none.

    Raises:
        UsageError: always.
    """
    raise UsageError(f"{name} cannot be loaded here: the engine was given no loader of models")


class Prepared(ABC):
    """A model under one set of options: everything but length, batch and memory is settled."""

    @property
    def staircase(self) -> Staircase | None:
        """The cost of a request on the fullest rank; None where it has not that form."""
        return None

    @abstractmethod
    def plan(self, ctx: int | None, batch: int) -> Plan:
        """What `batch` sequences of `ctx` tokens take; ctx None is the engine's own length."""

    @abstractmethod
    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        """The same with the tensors of each rank, and explained."""

    @abstractmethod
    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        """What the engine makes of `available_bytes` of cache memory on each rank."""

    def explained(self, plan: P) -> P:
        """The plan with its reasons, which cost more than its figures."""
        return plan


class Engine(ABC):
    """Whose rules a cache follows.

    Args:
        load_model: finds the spec of another model that the engine's options name.
    """

    name: ClassVar[str]
    versions: ClassVar[tuple[str, ...]]  # newest first
    whole_model: ClassVar[bool] = False  # no engine at all: see `Plan.whole_model`

    def __init__(self, load_model: LoadModel = no_other_model) -> None:
        self.load_model = load_model

    @abstractmethod
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
        return request

    def own_dtype(self, spec: ModelSpec, request: Request) -> str | None:
        """The format that the engine gives a model whose config names none, if it settles one."""
        return None

    @abstractmethod
    def prepare(self, spec: ModelSpec, request: Request, version: str) -> Prepared:
        """Settle everything but the request's ctx and batch, which are not looked at.

        Raises:
            UsageError: an option that the engine does not have, or a value it cannot take.
        """

    def spec_beside(self, spec: ModelSpec, request: Request) -> ModelSpec:
        """The spec for the logical figure that stands beside the engine's.

        A config may leave its format open where the engine settles it; the two figures are then in
        the same one.
        """
        own = self.own_dtype(spec, request) if spec.dtype is None else None
        return spec if own is None else spec.replaced(dtype=own)

    def layout(self, spec: ModelSpec, request: Request, version: str | None = None) -> CacheLayout:
        """What `request` makes this engine allocate, in one step; None is the newest version."""
        request = self.settled(request)
        return self.prepare(spec, request, self._version(version)).layout(
            request.ctx, request.batch
        )

    def fit(
        self, spec: ModelSpec, request: Request, version: str | None, available_bytes: int
    ) -> Plan:
        """What this engine makes of `available_bytes` per rank, in one step."""
        request = self.settled(request)
        prepared = self.prepare(spec, request, self._version(version))
        return prepared.explained(prepared.capacity(available_bytes, request.ctx, request.batch))

    def _version(self, asked: str | None) -> str:
        return self.versions[0] if asked is None else asked
