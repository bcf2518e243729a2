"""From what people and manifests call a device to the device.

    h100, H100!, NVIDIA-H100-80GB-HBM3, nvidia-h100-80gb, gpu-h100, accelerator_type_l4
    A100-80G, NVIDIA A100-SXM4-80GB, RTX 4090, 4090, NVIDIA-GeForce-RTX-4090, amd-gpu-mi300x

A name is words; words that every maker adds (nvidia, geforce, edition) say nothing, a size and a
form (sxm, pcie, nvl) choose among the kinds of one name, and what is left must be a known name in
full: an unknown word never makes one device out of another. Where several kinds remain, a kind of
exactly that name is meant (`h100` is the SXM one); else the smallest is taken, and the answer says
which there are.
"""

from __future__ import annotations

import re

from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.hardware.slices import profile_in, slice_of
from kvplan.hardware.tables import Row, device_of, device_rows, own_rows
from kvplan.named_tuple import NamedTuple

# Words that do not tell one device from another.
_NOISE = frozenset((
    "nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "apple", "google", "habana",
    "gpu", "graphics", "card", "accelerator", "type", "product", "generation", "edition", "series",
    "server", "workstation", "shared", "blackwell", "mega", "oam", "tensor", "core", "superchip",
    "gddr6", "hbm2", "hbm2e", "hbm3", "hbm3e",
))  # fmt: skip
_FORMS = {
    "sxm": "sxm", "sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm", "sxm6": "sxm",
    "pcie": "pcie", "pci": "pcie", "nvl": "nvl",
}  # fmt: skip
_SPLIT = re.compile(r"[\s_/,:()-]+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:g|gb|gib)")
_RESOURCE = re.compile(r"^(?:nvidia|amd|intel)[.]com/")  # as Kubernetes resources begin
_GLUED = re.compile(r"(?P<base>.+?)(?P<more>sxm\d?|pcie|nvl|(?<=\D)\d{2,3}gi?b)")


class Match(NamedTuple):
    """A device, and the other kinds that the name could have meant."""

    device: Device
    others: tuple[str, ...] = ()

    @property
    def notice(self) -> str | None:
        """What to tell a reader about the choice; None when there was none."""
        if not self.others:
            return None
        return f"taken as {self.device.name}; also of this name: {', '.join(self.others)}"


class _Words(NamedTuple):
    base: str
    size: float | None
    form: str


def find_device(text: str) -> Match:
    """The device that a name means.

    Raises:
        UsageError: no known device answers to it.
    """
    lowered = _RESOURCE.sub("", text.strip().lower()).rstrip("!")
    rows = _all_rows()
    sliced = profile_in(lowered)
    if sliced is not None:
        profile, rest = sliced
        parent = find_device(rest) if any(c.isalnum() for c in rest) else None
        return Match(slice_of(parent.device if parent else None, profile))
    told = "-".join(word for word in _SPLIT.split(lowered) if word and word not in _NOISE)
    for row in rows:  # exactly the name of one, or a name that is compared whole
        if lowered == row["name"] or {f"={lowered}", f"={told}"} & set(row["names"].split()):
            return Match(device_of(row))
    words = _words(lowered)
    kinds = [row for row in rows if words.base and words.base in _bases(row)]
    if not kinds:
        raise _unknown(text, words, rows)
    found = [row for row in kinds if _agrees(row, words)]
    if not found:
        names = ", ".join(f"{row['name']} ({row['memory_gb']} GB)" for row in kinds)
        size = f" of {words.size:g} GB" if words.size is not None else ""
        form = f" {words.form}" if words.form else ""
        raise UsageError(f"no {words.base}{form}{size} is known", hint=f"known: {names}")
    usual = [row for row in found if _squeezed(row["name"]) == words.base]
    if usual:
        return Match(device_of(usual[0]))
    found.sort(key=lambda row: float(row["memory_gb"] or 0))
    others = tuple(row["name"] for row in found[1:])
    same_size = all(row["memory_gb"] == found[0]["memory_gb"] for row in found)
    return Match(device_of(found[0]), () if same_size else others)


def is_listed(name: str) -> bool:
    """Whether a short name is a known device's."""
    return bool(name) and any(row["name"] == name for row in _all_rows())


def listed_with(capability: tuple[int, int] | None) -> str | None:
    """The first known device of a compute capability, which has the same kernels."""
    if capability is None:
        return None
    wanted = ".".join(map(str, capability))
    return next((row["name"] for row in device_rows() if row["capability"] == wanted), None)


def all_devices() -> list[Device]:
    """Every known device, the user's own first."""
    return [device_of(row) for row in _all_rows()]


def _all_rows() -> list[Row]:
    own = own_rows()
    hidden = {row["name"] for row in own}
    return [*own, *(row for row in device_rows() if row["name"] not in hidden)]


def _words(lowered: str) -> _Words:
    """The words of a name, sorted into name, size and form."""
    base: list[str] = []
    size, form = None, ""
    stack = [word for word in _SPLIT.split(lowered) if word]
    stack.reverse()
    while stack:
        word = stack.pop()
        if word in _NOISE:
            continue
        if word in _FORMS:
            form = _FORMS[word]
        elif sized := _SIZE.fullmatch(word):
            size = float(sized[1])
        elif word in ("gb", "gib", "g") and base and base[-1].isdigit():
            size = float(base.pop())
        elif glued := _GLUED.fullmatch(word):
            stack += [glued["more"], glued["base"]]
        else:
            base.append(word)
    return _Words("".join(base), size, form)


def _bases(row: Row) -> set[str]:
    """The names that a row answers to, squeezed."""
    own = _words(row["name"]).base if row["name"] else ""
    return {own, _squeezed(row["name"]), *row["names"].split()}


def _squeezed(name: str) -> str:
    return name.replace("-", "").replace(" ", "")


def _agrees(row: Row, words: _Words) -> bool:
    """Whether a kind has the size and the form that a name asks for."""
    if words.form and row["form"] not in ("", words.form):
        return False
    if words.size is None:
        return True
    sizes = {
        row["memory_gb"],
        str(round(int(row["driver_mib"]) / 1024)) if row["driver_mib"] else "",
    }
    return f"{words.size:g}" in sizes


def _unknown(text: str, words: _Words, rows: list[Row]) -> UsageError:
    from difflib import get_close_matches

    names = {base: row["name"] for row in rows for base in _bases(row)}
    near = dict.fromkeys(names[base] for base in get_close_matches(words.base, names, 5, 0.6))
    hint = f"did you mean {', '.join(near)}?" if near else "`kvplan gpus` lists the known ones;"
    return UsageError(
        f"gpu {text!r} is not a device that kvplan knows",
        hint=f"{hint} --gpu-memory 24GiB takes any other",
    )
