"""Engines' own names of what kvplan's options say: a flag copied from a launch line is answered.

Source: the flags of vLLM 0.33, SGLang 0.5, llama.cpp b11434 and Ollama's environment.
"""

from __future__ import annotations

import re

_NAMES = {
    "--ctx": "--max-model-len --ctx-size -c --num-ctx --context-length --max-seq-len --n-ctx",
    "--batch": "--parallel -np --num-parallel --max-running-requests --max-batch-size",
    "--tp": "--tensor-parallel-size -tp --tp-size --tensor-parallel --tensor-split",
    "--pp": "--pipeline-parallel-size -pp --pp-size",
    "--dp": "--data-parallel-size -dp --dp-size",
    "--dcp": "--decode-context-parallel-size -dcp --dcp-size",
    "--dtype": "--kv-cache-dtype --cache-dtype --kv-cache-type",
    "--dtype-k": "--cache-type-k -ctk",
    "--dtype-v": "--cache-type-v -ctv",
    "--available-memory": "--kv-cache-memory-bytes --kv-cache-memory",
    "the name itself, without a flag": "--model -m --model-path --hf-repo -hf",
}
_OWN = {flag: own for own, flags in _NAMES.items() for flag in flags.split()}
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")


def own_name(message: str) -> str | None:
    """What to write instead of the option that a message of the parser complains about."""
    if "no such option" not in message.lower():
        return None
    found = _OPTION.search(message)
    if found is None:
        return None
    flag = found[1].replace("_", "-")
    own = _OWN.get(flag)
    if own is not None:
        return f"{flag} is an engine's name for it; write {own}"
    return None
