"""Names as people, clouds and manifests write them; what is not known is said, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.errors import InputError, UsageError
from kvplan.hardware.names import all_devices, find_device, is_listed, listed_with
from kvplan.hardware.nvml import Seen, local_devices
from kvplan.hardware.sets import find_devices
from kvplan.hardware.tables import ENVIRONMENT
from kvplan.units import GIB, MIB


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [
        ("h100", "h100", 1),
        ("H100!", "h100", 1),
        ("NVIDIA-H100-80GB-HBM3", "h100", 1),
        ("nvidia-h100-80gb", "h100", 1),
        ("nvidia-h100-mega-80gb", "h100", 1),
        ("nvidia-gpu-h100", "h100", 1),
        ("h100pcie", "h100-pcie", 1),
        ("NVIDIA H100 NVL", "h100-nvl", 1),
        ("A100-80G", "a100-80gb", 1),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb", 1),
        ("nvidia-tesla-a100", "a100-40gb", 1),
        ("A100:80GB:8", "a100-80gb", 8),
        ("RTX 4090", "rtx-4090", 1),
        ("4090", "rtx-4090", 1),
        ("NVIDIA-GeForce-RTX-4090", "rtx-4090", 1),
        ("2x3090", "rtx-3090", 2),
        ("H100:4", "h100", 4),
        ("h100x8", "h100", 8),
        ("8xH100", "h100", 8),
        ("H100 80GB x8", "h100", 8),
        ("rtx pro 6000", "rtx-pro-6000", 1),
        ("accelerator_type_l4", "l4", 1),
        ("amd-gpu-mi300x", "mi300x", 1),
        ("7900 XTX", "rx-7900-xtx", 1),
        ("apple m4 pro", "apple-m4-pro", 1),
        ("dgx spark", "gb10", 1),
        ("Standard_NC24ads_A100_v4", "a100-pcie-80gb", 1),
        ("p5.48xlarge", "h100", 8),
        ("ml.g5.12xlarge", "a10g", 4),
        ("BM.GPU.H100.8", "h100", 8),
        ("BM.GPU4.8", "a100-40gb", 8),
        ("google-tpu-v5e-2x2", "tpu-v5e", 4),
        ("tpu-v6e-slice", "tpu-v6e", 1),
    ],
)
def test_a_name_means_one_device(text: str, name: str, number: int) -> None:
    """Makers' words, forms, sizes, counts and machines all lead to the same short names."""
    found = find_devices(text)

    assert (found.smallest.name, found.number) == (name, number)
    assert not found.notices


@pytest.mark.parametrize("name", ["gh200", "v100", "a100", "rtx 4060 ti", "intel-gaudi"])
def test_an_ambiguous_name_takes_the_smaller_and_says_so(name: str) -> None:
    """Several sizes carry the name: the notice names every other kind."""
    match = find_device(name)
    others = [device for device in all_devices() if device.name in match.others]

    assert match.notice is not None
    assert others
    assert all((other.memory_gb or 0) >= (match.device.memory_gb or 0) for other in others)


@pytest.mark.parametrize(
    "text", ["foo", "", "rtx 4090 d", "RTX 4090 Laptop GPU", "nvidia-gpu-rtx4070-8gb", "h100 40gb",
             "h100:0", "h100:10000", "h100:-1", "h100,,l4", "4", ":4", "x8"],
)  # fmt: skip
def test_what_is_not_known_is_refused(text: str) -> None:
    """An unknown word, size or count never becomes another device."""
    with pytest.raises(UsageError):
        find_devices(text)


def test_the_smallest_device_of_a_mixed_set_decides() -> None:
    """An RTX 4090 shows 24,564 MiB to the driver, 12 less than an RTX 3090."""
    found = find_devices("3090:2,4090:1")

    assert found.number == 3
    assert found.smallest.name == "rtx-4090"
    assert found.text == "2 x GeForce RTX 3090 + 1 x GeForce RTX 4090"


def test_no_size_in_a_name_is_taken_for_memory() -> None:
    """An 80 GB H100 has 79.19 GiB, a 24 GB L4 22.05, a 16 GB T4 14.56 (start-up logs)."""
    for name, seen in (("h100", 79.19), ("l4", 22.05), ("t4", 14.56), ("h200", 139.80)):
        total = find_device(name).device.total()

        assert total is not None
        assert total.low <= seen * GIB <= total.high
        assert abs(total.mid - seen * GIB) < 0.02 * GIB


def test_every_device_has_a_source_and_answers_to_its_own_names() -> None:
    """Blanks stay blank; a total, where it is known, is below the size in the name plus 1 %."""
    devices = all_devices()

    assert len(devices) == len({device.name for device in devices}) > 100
    for device in devices:
        assert device.source, device.name
        assert find_device(device.name).device == device
        if device.driver_name:
            assert find_device(device.driver_name).device.name == device.name
        total = device.total()
        if total is not None and device.memory_gb is not None:
            assert 0 < total.low <= total.mid <= total.high <= device.memory_gb * GIB * 1.01


def test_a_mig_slice_has_less_than_its_name_says() -> None:
    """1g.5gb of an A100 has 4,864 MiB (MIG user guide), 3g.40gb of an H100 40,448 MiB."""
    for text, mib, parent in (
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4864, "a100-40gb"),
        ("h100 mig-3g.40gb", 40448, "h100"),
        ("nvidia.com/mig-3g.40gb", 40448, "unknown"),
    ):
        device = find_device(text).device
        total = device.total()

        assert device.slice_of == parent
        assert total is not None
        assert total.low <= mib * MIB <= total.high


def test_a_device_with_the_same_kernels_stands_in() -> None:
    """Of a compute capability that some known device has."""
    assert is_listed("h100")
    assert not is_listed("memory")
    stand_in = listed_with((9, 0))
    assert stand_in is not None
    assert find_device(stand_in).device.capability == (9, 0)
    assert listed_with((99, 0)) is None


def test_a_file_of_one_s_own_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name and what programs find on it are enough."""
    path = tmp_path / "mine.csv"
    path.write_text("name,memory,bandwidth_gbs\nbox,23.5GiB,900\nh100,10GiB,\n")
    monkeypatch.setenv(ENVIRONMENT, str(path))

    assert find_device("box").device.bandwidth_gbs == 900
    total = find_device("h100").device.total()
    assert total is not None
    assert total.low == total.high == 10 * GIB


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,memory\nbox,\n", "mine.csv:2:1: device 'box' has no memory"),
        ("name,memory\n,4GiB\n", "mine.csv:2:1: a device without a name"),
        ("name,memory,speed\nbox,4GiB,7\n", "mine.csv:1:1: column 'speed' is none of a device"),
        ("name,memory\nbox,4G\n", "is not a size in bytes"),
    ],
)
def test_a_file_of_one_s_own_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    """What is wrong, and in which line."""
    path = tmp_path / "mine.csv"
    path.write_text(text)
    monkeypatch.setenv(ENVIRONMENT, str(path))

    with pytest.raises((InputError, UsageError)) as error:
        find_device("box")
    assert complaint in str(error.value)


def test_local_devices_are_what_the_driver_says() -> None:
    """A total other than the catalogue's is that of this machine; no driver is an answer too."""
    seen = [
        Seen("NVIDIA H100 80GB HBM3", 81559 * MIB, 0, (9, 0)),
        Seen("NVIDIA Unheard Of", 12288 * MIB, 2 * GIB, (9, 9)),
    ]
    devices, notices = local_devices(lambda: seen)

    assert [device.name for device in devices] == ["h100", "nvidia-unheard-of"]
    assert devices[1].driver_mib == 12288
    assert notices == ["NVIDIA Unheard Of: 2.00 GiB are in use now"]
    with pytest.raises(UsageError, match="no NVIDIA driver"):
        local_devices(list)
