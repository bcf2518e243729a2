"""Bytes of the weights of a GGUF model, by storage type, from its tensor infos alone."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kvplan.errors import ImportRefused
from kvplan.importers.gguf_file import read_header, weight_bytes


def weights_of_gguf(path: str | os.PathLike[str]) -> Mapping[str, int]:
    """Type name -> bytes of all tensors of that type, over all parts of a split model.

    Raises:
        GgufError: the header, or a part of a split model, cannot be read.
        ImportRefused: no tensors, or a storage type whose size is not known.
    """
    totals: dict[str, int] = {}
    for name, size in weight_bytes(read_header(path)).items():
        if size is None:
            raise ImportRefused(
                f"the bytes of tensors of {name} are not known", where=os.fspath(path)
            )
        totals[name] = size
    if not totals:
        raise ImportRefused("the file lists no tensors", where=os.fspath(path))
    return totals
