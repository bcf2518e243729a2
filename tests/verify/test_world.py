"""Which process this is, from the launcher's environment."""

from __future__ import annotations

import pytest

from kvplan.errors import UsageError
from kvplan.verify.world import world_of

PLACE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_a_process_of_its_own() -> None:
    """Without the variables, with only some of them, or alone in its world."""
    assert world_of({}) is None
    assert world_of({"RANK": "0", "WORLD_SIZE": "2"}) is None
    assert world_of({"RANK": "0", "WORLD_SIZE": "1", **PLACE}) is None


def test_torchrun() -> None:
    """Rank 5 of 8 is the second of four on the second host: ranks 4 to 7 share its memory."""
    found = world_of(
        {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", **PLACE}
    )
    assert found is not None
    assert (found.rank, found.size, found.local_rank, found.local_size) == (5, 8, 1, 4)
    assert list(found.local_ranks) == [4, 5, 6, 7]


def test_one_host_without_local_variables() -> None:
    """A launcher that names only the world has one host."""
    found = world_of({"RANK": "1", "WORLD_SIZE": "2", **PLACE})
    assert found is not None
    assert list(found.local_ranks) == [0, 1]


@pytest.mark.parametrize(
    "variables",
    [{"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "x", "WORLD_SIZE": "2"},
     {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
     {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "1"}],
)  # fmt: skip
def test_contradictions(variables: dict[str, str]) -> None:
    """A rank outside its world, or more than its host has."""
    with pytest.raises(UsageError):
        world_of({**variables, **PLACE})
