"""The facts of one engine, and what a file holds.

A fact's status says how far it can be trusted: `literal` stands in the file as it is; `env` comes
through a variable, macro or default that the file defines; `unresolved` hangs on something that the
file does not define; `absent` is not there. Only the first two have a value.
"""

from __future__ import annotations

from typing import Any

from kvplan.record import Record

FACTS = (
    "engine", "version", "model", "model_source", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "tp", "pp", "dp", "gpu_memory_fraction", "kv_cache_dtype",
    "quantization", "gpu_count", "gpu_type", "nodes", "replicas",
)  # fmt: skip
INTEGERS = frozenset(
    ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "tp", "pp", "dp", "gpu_count",
     "nodes", "replicas")
)  # fmt: skip

LITERAL, ENV, UNRESOLVED, ABSENT = "literal", "env", "unresolved", "absent"


class Fact(Record):
    """One fact.

    Attributes:
        value: None unless the status is literal or env.
        line, column: where the value stands; None for what is absent.
        status: literal, env, unresolved or absent.
        origin: what said it: a flag, a key, a variable.
    """

    value: Any = None
    line: int | None = None
    column: int | None = None
    status: str = ABSENT
    origin: str | None = None


NOTHING = Fact()


class Deployment(Record):
    """One engine: an instance, or a gang of pods that is one.

    Attributes:
        name: what the file calls it.
        line: where it begins.
        facts: every name of `FACTS`.
    """

    name: str
    line: int
    facts: dict[str, Fact]


class Reading(Record):
    """What one file holds.

    Attributes:
        deployments: its engines, in the file's order.
        render: the command that makes a readable stream of it; None where it is one.
        errors: what could not be read, `file:line:column: why`.
    """

    deployments: tuple[Deployment, ...] = ()
    render: str | None = None
    errors: tuple[str, ...] = ()
