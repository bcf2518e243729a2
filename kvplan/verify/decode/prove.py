"""The whole proof, in the order it is read: storage, equality and controls, operations and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from kvplan.engines.request import Request, cache_dtypes
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.verify.checks import Check, undecided
from kvplan.verify.decode.counting import counted
from kvplan.verify.decode.cut import WIDTH, Cut, cut, unknown_formats
from kvplan.verify.decode.equality import compared, decode, length_of, new_run
from kvplan.verify.decode.growth import growth
from kvplan.verify.decode.layouts import EXACT, Layout, layouts
from kvplan.verify.decode.reference import Reference
from kvplan.verify.decode.rounding import rounding

NOT_PROVEN = "decode_proof"


def prove(
    spec: ModelSpec,
    request: Request,
    *,
    device: str,
    seed: int,
    block_size: int,
    progress: Callable[[str, int, int], None] | None,
) -> list[Check]:
    """See `kvplan.verify.decode.prove`."""
    if block_size < 1:
        raise UsageError(f"a block of {block_size} tokens cannot be used", hint="give 1 or more")
    dtypes = cache_dtypes(spec, request)
    small = cut(spec)
    checks = [
        undecided(f"{NOT_PROVEN}[{kind}]", f"not proven: {why}") for kind, why in small.unproven
    ]
    if small.spec is None:
        return checks
    unknown = unknown_formats(small.spec, dtypes)
    if unknown:
        why = f"not proven in this format, only in float32: the bits of {', '.join(unknown)} are not spelt out"
        checks += [undecided(f"{NOT_PROVEN}[{name}]", why) for name in unknown]
        dtypes = EXACT
    tried = layouts(small.spec, dtypes, block_size, seed)
    # The arithmetic in plain sight: one implementation of attention on every device, in float32.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        return [*checks, *_all(small, tried, seed, device, progress or _silent)]


def _all(
    small: Cut,
    tried: list[Layout],
    seed: int,
    device: str,
    progress: Callable[[str, int, int], None],
) -> list[Check]:
    steps = len(tried) + 2
    progress("storage", 0, steps)
    own = tried[-2:]  # contiguous and paged in the format that is asked for
    checks = [check for layout in own for check in growth(layout, device)]
    if not own[0].exact:
        checks += rounding(own[0], seed, device)
    length = length_of(list(tried[0].spec.states()))
    run = new_run(length, seed, device)
    cuts = f"{', '.join(small.said)}, width {WIDTH}"
    whole = exact = torch.empty(0)
    for number, layout in enumerate(tried):
        progress(layout.name, number + 1, steps)
        model = Reference(layout.spec, seed=seed, longest=length, device=device)
        if number % 2 == 0:  # a contiguous layout and the paged one after it round alike
            whole = decode(model, run._replace(pieces=(length,)), layout.nothing())
        if number == 0:
            exact = whole
        for check in compared(model, run, layout, whole, exact, device):
            name = check.name + (f"[{layout.name}]" if number else "")
            checks.append(replace(check, name=name, why=f"{layout.name}: {check.why} ({cuts})"))
    progress("operations", steps - 1, steps)
    model = Reference(tried[0].spec, seed=seed, longest=length, device=device)
    return [*checks, *counted(model, run, tried[0], device)]


def _silent(what: str, done: int, total: int) -> None:
    """No progress is asked for."""
