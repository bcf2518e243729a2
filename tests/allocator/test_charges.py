"""`size --allocator`: what torch's allocator makes of a layout, without torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kvplan.allocator.charges import charges
from kvplan.cli import main
from kvplan.engines.layout import CacheLayout, RankLayout, Tensor
from kvplan.errors import InputError
from kvplan.report.charges import charges_lines

MIB = 1 << 20


def layout(*ranks: list[int]) -> CacheLayout:
    return CacheLayout(
        engine="e",
        version="1",
        runs=tuple(
            RankLayout(rank=i, tensors=tuple(Tensor("t", (n,), "uint8", n) for n in sizes))
            for i, sizes in enumerate(ranks)
        ),
    )


def test_each_rank_is_a_process_of_its_own() -> None:
    """A small segment of 2 MiB on one, a block of exactly 10 MiB on the other."""
    found = charges(layout([1000], [10 * MIB]))

    assert [charge[1:] for charge in found.ranks] == [
        (1000, 1024, 2 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
    ]


def test_options_are_followed_and_checked() -> None:
    """Pages of 20 MiB with expandable segments; a backend without known rules is refused."""
    assert charges(layout([10 * MIB]), "expandable_segments:True").ranks[0].reserved == 20 * MIB
    with pytest.raises(InputError):
        charges(layout([1]), "backend:cudaMallocAsync")


def test_equal_ranks_are_one_line() -> None:
    """Named as a run, or by how many there are."""
    lines = charges_lines(charges(layout([1000], [1000], [MIB], [1000])))

    assert [line.partition(":")[0] for line in lines[1:]] == [
        "each of 3 ranks from 0 to 3",
        "rank 2",
    ]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3.1 8B, 1,000 tokens: 131,072,000 bytes, and what real allocators were seen to say."""
    assert main(["size", "llama3.1-8b", "--ctx", "1000", "--allocator"]) == 0
    out = capsys.readouterr().out

    assert "formula 125.00 MiB, allocated 127.81 MiB, reserved 140.00 MiB" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Per rank, with the rules that were followed; logical stays without an engine's tensors."""
    options = ["--ctx", "1000", "--tp", "2", "--allocator", "--json"]
    assert main(["size", "llama3.1-8b", *options]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]

    # each rank: 64 tensors of 1,024,000 B in the small pool, two in 2 MiB, 512 B steps
    assert result["allocated"] is None
    assert [rank["formula_bytes"] for rank in result["allocator"]["per_rank"]] == [65_536_000] * 2
    assert [rank["allocated_bytes"] for rank in result["allocator"]["per_rank"]] == [65_536_000] * 2
    assert [rank["reserved_bytes"] for rank in result["allocator"]["per_rank"]] == [
        32 * 2 * MIB
    ] * 2


def test_options_without_the_allocator(capsys: pytest.CaptureFixture[str]) -> None:
    """Would have no effect, so they are refused."""
    assert main(["size", "llama3-8b", "--alloc-conf", "expandable_segments:True"]) == 2
    assert "--allocator" in capsys.readouterr().err


def test_torch_is_not_needed() -> None:
    """The model of the allocator stands alone."""
    code = (
        "import sys; from kvplan.cli import main; "
        "main(['size', 'llama3-8b', '--allocator']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
