"""What servers call models: Ollama's and RamaLama's tags, model ids of clouds, uploaders' renames.

`tags.tsv` is a dated table: such names are not derived from the model's, and what one means moves.
A tag's quantisation (`-q4_K_M`) says how the weights are stored and is left out before it is looked
up. A tag that is not in the table is spelt out: Ollama's `qwen2.5:72b` is the instruct model.
"""

from __future__ import annotations

import os
import re
from functools import cache

from kvplan.named_tuple import NamedTuple
from kvplan.spec.copies import QUANTS

DATE = "2026-11-30"

_LIBRARY = re.compile(
    r"(?:https?://)?(?:(?:www\.)?ollama\.com/|registry\.ollama\.ai/)?(?:library/)?"
)
_QUANT = re.compile(rf"(?<=[a-z0-9])[-:]{QUANTS}$")
_CLOUD = re.compile(r"(?:(?:us|eu|apac|jp|au|ca|sa|us-gov|global)\.)?[a-z0-9]+\.(.+?)-v\d+:\d+$")
_DOT = re.compile(r"(?<=[a-z]\d)-(?=\d-)")
_TUNED = ("instruct", "it", "chat", "")


class Tag(NamedTuple):
    """One row of the table.

    Attributes:
        ids: Hugging Face ids; several where the name does not decide, none for closed weights.
        server: whose name it is.
        note: what a reader should know, such as what it meant before.
    """

    ids: tuple[str, ...]
    server: str
    note: str


@cache
def tags() -> dict[str, Tag]:
    """The table, by lower-case name."""
    import kvplan

    path = os.path.join(os.path.dirname(__file__), "tags.tsv")
    loader = kvplan.__spec__.loader if kvplan.__spec__ else None
    text: bytes = loader.get_data(path)  # type: ignore[union-attr]
    found = {}
    for line in text.decode("utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, ids, server, note = (*line.split("\t"), "", "")[:4]
        found[name] = Tag(() if ids == "-" else tuple(ids.split("|")), server, note)
    return found


def find_tag(name: str) -> Tag | None:
    """What a server's name means, by the table; None if it does not hold it."""
    plain = plain_tag(name)
    table = tags()
    for form in dict.fromkeys((name.strip().lower(), plain, plain.removesuffix(":latest"))):
        if form in table:
            return table[form]
    return None


def plain_tag(name: str) -> str:
    """A tag in lower case, without the library's address and without its quantisation."""
    text = name.strip().lower()
    text = text[_LIBRARY.match(text).end() :]  # type: ignore[union-attr]
    return _QUANT.sub("", text)


def is_remote(name: str) -> bool:
    """Whether Ollama runs it on its own servers: `:cloud`, `:120b-cloud`."""
    return ":" in name and name.strip().lower().endswith(("cloud",))


def spelt_out(name: str) -> list[str]:
    """The bare names a server's name may stand for, likeliest first; [] for any other name."""
    text = name.strip().lower()
    cloud = _CLOUD.fullmatch(text)
    if cloud:
        bare = _DOT.sub(".", cloud[1], count=1)
        return [bare, f"{bare}-instruct"]
    text = plain_tag(text)
    if text.count(":") != 1 or "/" in text:
        return []
    family, _, tag = text.partition(":")
    if tag.startswith("latest"):
        return []
    size, _, rest = tag.partition("-")
    whole = f"{family}-{tag}"
    forms = [f"{whole}-{word}" if word else whole for word in _TUNED]
    if rest and size[:1].isdigit():  # mistral-nemo:12b-instruct-2407
        forms.append(f"{family}-{rest}")
    if tag.endswith("-text"):
        forms.append(whole.removesuffix("-text"))
    return forms
