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
    expected: Forecast, before: State, during: State, after: State, *, failed_at: int | None
) -> list[Check]:
    """Requested, allocated, reserved, peaks, the driver's view, and what is left.

    Args:
        expected: the allocator model's figures.
        before, during, after: the device without the tensors, with them, and once they are freed.
        failed_at: index of the tensor that no longer fit, if one did not.
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
    checks.append(_driver(expected.driver if not reason else None, reason, before, during, after))
    checks.append(_left(before, after))
    return checks


def _driver(
    predicted: int | None, reason: str, before: State, during: State, after: State
) -> Check:
    """Memory gone from the device; a difference counts only when nobody else moved meanwhile."""
    gone = before.free - during.free
    if predicted is None:
        return undecided("driver_used", reason, measured=gone)
    moved = after.free - before.free
    why = "free memory of the whole device before and with the tensors (mem_get_info)"
    found = compare("driver_used", predicted, gone, why)
    if found.ok or not moved:
        return found
    return undecided(
        "driver_used",
        f"{why}; it did not come back to where it was ({moved:+,} B), so others used the device",
        predicted=predicted,
        measured=gone,
    )


def _left(before: State, after: State) -> Check:
    why = "memory_reserved once everything is freed and the cache is emptied"
    return compare("left_after_free", 0, after.reserved - before.reserved, why)
