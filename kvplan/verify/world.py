"""Which of several processes this one is: the environment that torchrun sets.

RANK, WORLD_SIZE                 place among all processes
LOCAL_RANK, LOCAL_WORLD_SIZE     place among those on this host
MASTER_ADDR, MASTER_PORT         where they meet
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.errors import UsageError
from kvplan.named_tuple import NamedTuple

_MOST_DIGITS = 9
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class World(NamedTuple):
    """This process's place among all, and among those on its host."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @property
    def local_ranks(self) -> range:
        """The ranks on this host: launchers number them in one run."""
        first = self.rank - self.local_rank
        return range(first, first + self.local_size)


def world_of(environment: Mapping[str, str]) -> World | None:
    """The processes that a launcher started together; None for a process of its own.

    Raises:
        UsageError: the launcher's variables contradict each other.
    """
    if any(name not in environment for name in _NEEDED):
        return None
    if not 0 < _number(environment, "MASTER_PORT") < 65536:
        raise UsageError(f"environment variable MASTER_PORT is {environment['MASTER_PORT']!r}")
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if size == 1:
        return None
    local_rank = _number(environment, "LOCAL_RANK") if "LOCAL_RANK" in environment else rank
    local_size = (
        _number(environment, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in environment else size
    )
    if not (0 <= local_rank <= rank < size and local_rank < local_size <= size):
        raise UsageError(
            f"the launcher's variables contradict each other: rank {rank} of {size}, "
            f"{local_rank} of {local_size} on this host",
            hint="start with torchrun --nproc-per-node N -m kvplan verify ...",
        )
    return World(rank, size, local_rank, local_size)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise UsageError(f"environment variable {name} is {text[:40]!r}, not a number of ranks")
    return int(text)
