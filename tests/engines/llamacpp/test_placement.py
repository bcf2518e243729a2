"""Layers on devices: cumulative shares over the layers and the output."""

from __future__ import annotations

from kvplan.engines.llamacpp.placement import HOST, placed


def test_one_device_takes_the_last_layers() -> None:
    """Of 36 layers and the output, 30 lie on the device: the first 7 layers do not."""
    assert placed(36, 30, (1.0,)) == (HOST,) * 7 + (0,) * 30
    assert placed(36, 99, (1.0,)) == (0,) * 37
    assert placed(36, 0, (1.0,)) == (HOST,) * 37


def test_shares_are_cumulative() -> None:
    """SmolLM2: 30 layers and the output on two equal cards are 16 (0 .. 15) and 15 slots."""
    found = placed(30, 99, (1.0, 1.0))

    assert found.count(0) == 16
    assert found[15:17] == (0, 1)
    assert found[-1] == 1


def test_a_device_without_a_share_gets_nothing() -> None:
    """Its cumulative share never exceeds that of the one before."""
    assert 1 not in placed(30, 99, (1.0, 0.0, 1.0))
