"""What a model's class fixes when its config is silent: one table, each row with its source.

A nested text config is saved without the values that equal its class's, so there a missing
`num_hidden_layers` means the class's number. A root config is always saved with its counts; there a
missing count is a missing fact, and only what shapes the layers (windows, patterns, head_dim) comes
from the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from os.path import dirname, join

from kvplan.named_tuple import NamedTuple

TABLE = join(dirname(__file__), "class_defaults.tsv")

# Columns of the table -> the key of a config they stand for.
_COUNTS = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "hidden": "hidden_size",
    "context": "max_position_embeddings",
    "vocab": "vocab_size",
}


class OnePerHead(NamedTuple):
    """The rule that a missing number of KV heads means one per query head.

    Attributes:
        source: class that says so.
        null: an explicit null means the same.
    """

    source: str
    null: bool = False


class ClassDefaults(NamedTuple):
    """The defaults of one class.

    Attributes:
        source: project, version and class.
        counts: key -> value, for nested configs only.
        shapes: key -> value, for every config of the class.
        mha: set where the class gives every query head its own K and V unless told otherwise.
    """

    source: str
    counts: Mapping[str, int] = {}
    shapes: Mapping[str, int | bool] = {}
    mha: OnePerHead | None = None

    def value(self, key: str, *, nested: bool) -> int | bool | None:
        """What the class fixes for a key that a config does not hold, None if nothing."""
        if key in self.shapes:
            return self.shapes[key]
        return self.counts.get(key) if nested else None


def class_defaults(model_type: str | None) -> ClassDefaults | None:
    """The defaults of a model type, None if the table has no row for it."""
    return _table().get(model_type) if model_type else None


@cache
def _table() -> dict[str, ClassDefaults]:
    with open(TABLE, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if not line.startswith("#")]
    header = lines[0].split("\t")
    rows = (dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:])
    return {row["model_type"]: _row(row) for row in rows}


def _row(row: Mapping[str, str]) -> ClassDefaults:
    source = f"{row['source']} {row['class']}"
    counts = {key: int(row[name]) for name, key in _COUNTS.items() if row[name].isdigit()}
    shapes: dict[str, int | bool] = {}
    if row["head_dim"].isdigit():
        shapes["head_dim"] = int(row["head_dim"])
    if row["other"] != "-":
        for pair in row["other"].split(" "):
            key, _, value = pair.partition("=")
            shapes[key] = value == "true" if value in ("true", "false") else int(value)
    mha = OnePerHead(source, null=row["kv_heads"] == "=null") if "=" in row["kv_heads"] else None
    return ClassDefaults(source, counts, shapes, mha)
