"""What a shell completes: names of models, engines and versions, formats.

Only the shell's completion script reaches this room, so no command waits for it. A list that cannot
be made is empty: a shell has no place for an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvplan.errors import KvplanError


def completer(metavar: str | None, name: str) -> Callable[[str], list[str]] | None:
    """The function that completes a value, by what the value is called; None for free values."""
    if metavar is None:
        return None
    made = {
        "MODEL": _models,
        "MODEL...": _models,
        "ENGINE": _engines,
        "FORMAT": lambda: ("table", "json", "csv", "md"),
        "D": _dtypes,
        "D[,D]": _dtypes,
    }.get(metavar)
    if name == "name" and metavar == "NAME":
        made = _models
    if name == "gpu":
        made = _gpus
    if made is None:
        return None
    source: Callable[[], Iterable[str]] = made

    def complete(incomplete: str) -> list[str]:
        start = incomplete.lower()
        try:
            return sorted(each for each in source() if each.lower().startswith(start))
        except (KvplanError, OSError):
            return []

    return complete


def _models() -> Iterable[str]:
    from kvplan.spec.catalogue import Catalogue

    for entry in Catalogue().entries():
        yield from entry.names()


def _engines() -> Iterable[str]:
    from kvplan.engines import ENGINE_NAMES, LOGICAL, find_engine

    for name in ENGINE_NAMES:
        yield name
        if name != LOGICAL:
            yield from (f"{name}@{version}" for version in find_engine(name)[0].versions)


def _dtypes() -> Iterable[str]:
    from kvplan.dtypes import SPELLINGS

    return ("auto", *SPELLINGS)


def _gpus() -> Iterable[str]:
    from kvplan.hardware.names import all_devices

    return (device.name for device in all_devices())
