"""One reader per engine behind one small interface: which lines are its own, and what they say.

A log is read once, by all readers side by side; the engine whose lines tell of a cache is the one
that ran. One that prints through another's code (Ollama through llama.cpp) stands after it and wins
when its own lines are there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvplan.errors import InputError
from kvplan.running.llamacpp import lines as llamacpp_lines
from kvplan.running.seen import Seen
from kvplan.running.sglang import lines as sglang_lines
from kvplan.running.starts import Splitter, Starts
from kvplan.running.trtllm import lines as trtllm_lines
from kvplan.running.vllm import lines


@dataclass(frozen=True, slots=True)
class Reader:
    """How to read one engine's log.

    Attributes:
        engine: its name.
        begins: whether a start begins with a line.
        read: notes what a line says; False when it says nothing of this engine's.
    """

    engine: str
    begins: Callable[[str], bool]
    read: Callable[[str, int, Seen], bool]


READERS = (
    Reader("vllm", lines.begins, lines.read_line),
    Reader("sglang", sglang_lines.begins, sglang_lines.read_line),
    Reader("tensorrt_llm", trtllm_lines.begins, trtllm_lines.read_line),
    Reader("llamacpp", llamacpp_lines.begins, llamacpp_lines.read_line),
    Reader("ollama", llamacpp_lines.begins_ollama, llamacpp_lines.read_ollama),
)
ENGINES = tuple(reader.engine for reader in READERS)


def read_log(text: Iterable[str], name: str, engine: str | None) -> tuple[Reader, Starts]:
    """The reader whose engine wrote a log, and the log's starts.

    Args:
        text: lines.
        name: the log's name, for messages.
        engine: whose log it is; None: the one whose lines are there.

    Raises:
        InputError: no line tells of an engine's cache.
    """
    readers = [reader for reader in READERS if engine in (None, reader.engine)]
    splitters = [Splitter(reader.engine, reader.read, reader.begins) for reader in readers]
    for number, line in enumerate(text, 1):
        for splitter in splitters:
            splitter.feed(line, number)
    found = [
        (reader, splitter.starts()) for reader, splitter in zip(readers, splitters, strict=True)
    ]
    telling = [pair for pair in found if pair[1].chosen is not None]
    if not telling:
        raise InputError(_nothing(found, engine), where=name, hint=_hint(found, engine))
    # The last that is complete: Ollama's lines contain llama.cpp's.
    complete = [pair for pair in telling if pair[1].complete]
    return (complete or telling)[-1]


def _nothing(found: list[tuple[Reader, Starts]], engine: str | None) -> str:
    whose = engine or "a known engine"
    for reader, starts in found:
        if starts.facts_only is not None:
            return f"a {reader.engine} start, but no line of its cache: the log ends before that"
    return f"no line tells of the cache of {whose}"


def _hint(found: list[tuple[Reader, Starts]], engine: str | None) -> str:
    if any(starts.facts_only is not None for _, starts in found):
        return "wait for the engine to come up, and pass its log from the start"
    return "known are the start-up logs of vLLM, SGLang, TensorRT-LLM, llama.cpp and Ollama"
