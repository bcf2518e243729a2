"""The checks of a CUDA measurement: the allocator's figures to the byte, then the driver's view."""

from __future__ import annotations

from kvplan.checks import Check, compare, undecided
from kvplan.verify.devices.cuda_state import State
from kvplan.verify.devices.forecast import Forecast

_WHY = {
    "memory_requested": "bytes asked of torch's allocator (requested_bytes)",
    "memory_allocated": "blocks in use, rounding and unsplit remainders included",
    "memory_reserved": "segments that torch took from the driver",
    "memory_allocated_peak": "highest memory_allocated on the way: nothing temporary was needed",
    "memory_reserved_peak": "highest memory_reserved on the way",
}


def memory_checks(
    expected: Forecast,
    before: State,
    during: State,
    after: State,
    *,
    failed_at: int | None,
    alone: bool = True,
) -> list[Check]:
    """Requested, allocated, reserved, peaks, the driver's view, and what is left.

    Args:
        expected: the allocator model's figures.
        before, during, after: the device without the tensors, with them, and once they are freed.
        failed_at: index of the tensor that no longer fit, if one did not.
        alone: whether it is known that no other process uses the device.
    """
    figures = {
        "memory_requested": (expected.requested, during.requested - before.requested),
        "memory_allocated": (expected.allocated, during.allocated - before.allocated),
        "memory_reserved": (expected.reserved, during.reserved - before.reserved),
        "memory_allocated_peak": (expected.allocated_peak, during.allocated_peak),
        "memory_reserved_peak": (expected.reserved_peak, during.reserved_peak),
    }
    reason = expected.reason
    if not reason and failed_at != expected.fails_at:
        reason = (
            "memory ran out at another tensor than predicted, so the figures are not comparable"
        )
    checks = [
        undecided(name, reason, measured=measured)
        if reason or predicted is None
        else compare(name, predicted, measured, _WHY[name])
        for name, (predicted, measured) in figures.items()
    ]
    driver = expected.driver if not reason else None
    checks.append(_driver(driver, reason, before, during, after, alone=alone))
    checks.append(_left(before, during, after))
    return checks


def _driver(
    predicted: int | None,
    reason: str,
    before: State,
    during: State,
    after: State,
    *,
    alone: bool,
) -> Check:
    """Memory gone from the device; a difference counts only when nobody else moved meanwhile."""
    gone = before.free - during.free
    if predicted is None:
        return undecided("driver_used", reason, measured=gone)
    moved = after.free - before.free
    why = "free memory of the whole device before and with the tensors (mem_get_info)"
    found = compare("driver_used", predicted, gone, why)
    if found.ok or (not moved and alone):
        return found
    others = (
        f"it did not come back to where it was ({moved:+,} B), so others used the device"
        if moved
        else "others may use the device, and take and return memory meanwhile"
    )
    return undecided(
        "driver_used",
        f"{why}; {others}",
        predicted=predicted,
        measured=gone,
    )


def _left(before: State, during: State, after: State) -> Check:
    why = "memory_reserved once everything is freed and the cache is emptied"
    if not during.reserved:
        return undecided("left_after_free", f"{why}: torch counts nothing on this allocator")
    return compare("left_after_free", 0, after.reserved - before.reserved, why)
