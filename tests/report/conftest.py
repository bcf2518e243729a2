"""One small hybrid model that every report of this room shows, its figures worked out here.

local   6 layers x 1,024 tokens x 2 x 4 x 128 x 2 B            = 12,582,912
global  2 layers x 8,192 tokens x 2 x 4 x 128 x 2 B            = 33,554,432
delta   1 layer, (2 x 2 x 64 + 4 x 64) channels x 3 columns x 2 B
        and 4 x 64 x 64 x 4 B                                  =     68,608
                                                                 46,205,952 a sequence
"""

from __future__ import annotations

import io
import os
import sys

import pytest

from kvplan.load import LoadedModel
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import GatedDeltaNet
from kvplan.spec.states import FullAttention, SlidingAttention

SHAPE = {"kv_heads": 4, "head_dim": 128}
DELTA = GatedDeltaNet(conv_kernel=4, k_heads=2, k_head_dim=64, v_heads=4, v_head_dim=64)


def hybrid(name: str = "hybrid-9b") -> LoadedModel:
    """The model, under a name."""
    spec = ModelSpec(
        name=name,
        hf_ids=("maker/Hybrid-9B",),
        max_context=8192,
        dtype="bfloat16",
        heads=16,
        source="a card",
        kinds={
            "local": (SlidingAttention(**SHAPE, window=1024),),
            "global": (FullAttention(**SHAPE),),
            "delta": (DELTA,),
        },
        layers=(("local",) * 3 + ("global",)) * 2 + ("delta",),
    )
    return LoadedModel(spec, "hybrid.yaml")


@pytest.fixture
def model() -> LoadedModel:
    """The model under its own name."""
    return hybrid()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Standard output as a terminal of a given width; TERM is an ordinary one."""

    def open_(width: int, encoding: str = "utf-8") -> Terminal:
        stream = Terminal()
        stream.encoding = encoding
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(os, "isatty", lambda fd: True)
        return stream

    return open_
