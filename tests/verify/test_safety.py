"""Nothing is allocated that would not leave a margin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.errors import UsageError
from kvplan.verify.devices.device import Room
from kvplan.verify.safety import default_margin, require_room

GIB = 1 << 30


def device(total: int, free: int, *, survives: bool = True) -> Any:
    return SimpleNamespace(
        name="cuda:0", survives_oom=survives, room=lambda: Room(total, free, "mem_get_info")
    )


@pytest.mark.parametrize(("total", "margin"), [(80 * GIB, GIB), (2 * GIB, 2 * GIB // 20)])
def test_the_default_margin(total: int, margin: int) -> None:
    """A twentieth, at most 1 GiB."""
    assert default_margin(Room(total, total, "")) == margin


def test_what_leaves_the_margin_is_allowed() -> None:
    """Down to the byte: 10 GiB free, 1 GiB to stay, 9 GiB fit and one byte more does not."""
    require_room(device(80 * GIB, 10 * GIB), 9 * GIB)
    with pytest.raises(UsageError, match=r"10\.00 GiB free"):
        require_room(device(80 * GIB, 10 * GIB), 9 * GIB + 1)


def test_the_refusal_says_what_would_do() -> None:
    """Bytes that would fit, and the other ways out."""
    with pytest.raises(UsageError) as caught:
        require_room(device(80 * GIB, 10 * GIB), 20 * GIB)
    assert caught.value.hint is not None
    assert "--max-bytes 9216MiB" in caught.value.hint
    assert "--allow-oom" in caught.value.hint


def test_another_margin() -> None:
    """As asked, down to none."""
    require_room(device(80 * GIB, 10 * GIB), 10 * GIB, margin=0)
    with pytest.raises(UsageError):
        require_room(device(80 * GIB, 10 * GIB), 7 * GIB, margin=4 * GIB)


def test_running_out_is_tried_only_where_it_is_survived() -> None:
    """On a CPU host the kernel would end processes, so the option changes nothing there."""
    require_room(device(80 * GIB, 1), GIB, allow_oom=True)
    with pytest.raises(UsageError) as caught:
        require_room(device(80 * GIB, 1, survives=False), GIB, allow_oom=True)
    assert "--allow-oom" not in (caught.value.hint or "")


def test_a_device_that_does_not_say() -> None:
    """Unknown free memory is no free memory."""
    silent = SimpleNamespace(name="xpu:0", survives_oom=True, room=lambda: None)
    with pytest.raises(UsageError, match="does not say how much"):
        require_room(silent, 1)  # type: ignore[arg-type]
    require_room(silent, 1, allow_oom=True)  # type: ignore[arg-type]
