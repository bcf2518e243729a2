"""The whole proof, in the order it is read: storage, equality and controls, operations and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from kvplan.checks import Check, undecided
from kvplan.engines.request import Request, cache_dtypes
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec
from kvplan.verify.decode.counting import counted
from kvplan.verify.decode.cut import WIDTH, Cut, cut, unknown_formats
from kvplan.verify.decode.equality import compared, decode, length_of, new_run
from kvplan.verify.decode.growth import growth
from kvplan.verify.decode.layouts import EXACT, Layout, layouts
from kvplan.verify.decode.reference import Reference
from kvplan.verify.decode.rounding import rounding, states_keep_precision

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
        why = "not proven in this format, only in float32: the reference does not write its bits"
        checks += [undecided(f"{NOT_PROVEN}[{name}]", why) for name in unknown]
        dtypes = EXACT
    tried = layouts(small.spec, dtypes, block_size, seed)
    # The arithmetic in plain sight: one implementation of attention on every device, in float32.
    try:
        with torch.no_grad(), _one_thread(), sdpa_kernel(SDPBackend.MATH):
            checks += _all(small, tried, seed, device, progress or _silent)
    except torch.OutOfMemoryError as error:
        why = f"not proven: {device} ran out of memory ({str(error).splitlines()[0]})"
        checks.append(undecided(f"{NOT_PROVEN}[memory]", why))
    return checks


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run on one thread, whatever the setting, and put the setting back.

    Single tokens are too little work to share: threads that wait for each other cost more than they
    give, many times more on a busy host. And sums come out the same on every number of cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _all(
    small: Cut,
    tried: list[Layout],
    seed: int,
    device: str,
    progress: Callable[[str, int, int], None],
) -> list[Check]:
    steps = len(tried) + 2
    progress("storage", 0, steps)
    cuts = f"{', '.join(small.said)}, width {WIDTH}"
    own = [one for one in tried if one[:2] == tried[-1][:2]]  # in the format that is asked for
    checks = [
        replace(check, why=f"{check.why} ({cuts})")
        for layout in own
        for check in growth(layout, device)
    ]
    if not own[0].exact:
        checks += rounding(own[0], seed, device)
    checks += states_keep_precision(own[0], seed, device)
    length = length_of(list(tried[0].spec.states()))
    run = new_run(length, seed, device)
    # One transformer for all: a layout's format concerns what is kept, not what is computed.
    model = Reference(tried[0].spec, seed=seed, longest=length, device=device)
    whole = exact = torch.empty(0)
    for number, layout in enumerate(tried):
        progress(layout.name, number + 1, steps)
        if layout.block_size is None:  # the paged layout after it rounds alike
            whole = decode(model, run._replace(pieces=(length,)), layout.nothing())
        if number == 0:
            exact = whole
        for check in compared(model, run, layout, whole, exact, device):
            name = check.name + (f"[{layout.name}]" if number else "")
            checks.append(replace(check, name=name, why=f"{layout.name}: {check.why} ({cuts})"))
    progress("operations", steps - 1, steps)
    return [*checks, *counted(model, run, tried[0], device)]


def _silent(what: str, done: int, total: int) -> None:
    """No progress is asked for."""
