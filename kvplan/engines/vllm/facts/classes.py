"""Which model classes a release of vLLM has, and which of them it can cut into pipeline stages.

`classes.tsv` has one row per class that a release's registry ever had, or that the transformers
library can lend it: the first and the last release with it (the last is left open where 0.33 has
it), the first in which it can be staged, and the first whose transformers has a class that vLLM can
run in its place. Sources: model_executor/models/registry.py and the model files of the releases
from 0.2.4 to 0.33.0; transformers 4.51.3, 4.53.3, 4.57.6 and 5.24.0 (_supports_attention_backend).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kvplan.engines.vllm.facts.versions import HISTORY
from kvplan.named_tuple import NamedTuple

_FILE = Path(__file__).with_name("classes.tsv")


class ModelClass(NamedTuple):
    """One row, "-" where nothing stands.

    Attributes:
        first, last: the first and last release whose registry has it.
        staged: the first release that can cut it into stages; `never`; "-" for all.
        lent: the first release that runs transformers' class in its place.
    """

    first: str
    last: str
    staged: str
    lent: str

    def is_in(self, version: str) -> bool:
        """Whether a release serves it, by its own class or by transformers'."""
        return self.is_own(version) or (self.lent != "-" and _reached(self.lent, version))

    def is_own(self, version: str) -> bool:
        """Whether the release's own registry has it."""
        if self.first == "-" or not _reached(self.first, version):
            return False
        return self.last == "-" or _reached(version, self.last)

    def is_past(self, version: str) -> bool:
        """Whether an earlier release had it."""
        return self.last != "-" and not _reached(version, self.last)

    def is_staged_in(self, version: str) -> bool:
        """Whether a release can cut it into pipeline stages."""
        if self.staged == "-" or not self.is_own(version):
            return True
        return self.staged != "never" and _reached(self.staged, version)


def _reached(release: str, version: str) -> bool:
    return HISTORY.number(release) <= HISTORY.number(version)


@lru_cache(maxsize=1)
def _table() -> dict[str, ModelClass]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {name: ModelClass(*values) for name, *values in rows}


def class_named(architecture: str | None) -> ModelClass | None:
    """The row of a class; None for one that no release ever had."""
    return _table().get(architecture or "")


# Classes that vLLM hands to plugins, and the last release that says so.
PLUGIN_UNTIL = "0.28.0"
BY_PLUGIN = frozenset((
    "BartForConditionalGeneration", "BartModel", "Florence2ForConditionalGeneration",
    "MBartForConditionalGeneration",
))  # fmt: skip
PLUGIN_SINCE = "0.18.0"
