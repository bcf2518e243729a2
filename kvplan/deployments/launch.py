"""A command line: which engine it starts, and what its flags say.

Short flags count only behind the engine's own program: `-c` of a shell is no context, and
`-n 65536` of another tool no length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvplan.deployments.dialects import Dialect, dialect
from kvplan.deployments.draft import Draft
from kvplan.deployments.images import Image, read_image
from kvplan.deployments.node import Node, documents
from kvplan.deployments.script import Line
from kvplan.deployments.shell import ShellWord
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import MARK
from kvplan.documents.document import Place
from kvplan.engines.kit.argline import Argument, parse
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.words import Word
from kvplan.errors import UsageError

# Programs whose arguments may name an engine without starting one.
_OTHERS = frozenset(
    ("echo", "printf", "grep", "pkill", "pgrep", "killall", "ps", "curl", "wget", "pip", "pip3",
     "apt", "apt-get", "which", "command", "type", "test", "[", "[[", "hf", "huggingface-cli",
     "git", "cat", "ls", "sleep", "cd", "mkdir", "rm", "cp", "mv", "ln", "source", ".", "tail",
     "tee", "sed", "awk", "helm", "kubectl", "aws", "gsutil", "gcloud", "function", "trap",
     "log", "info", "die", "error", "warn", "find", "chmod", "touch", "return")
)  # fmt: skip
_MODULES = (
    ("vllm", re.compile(r"vllm\.entrypoints\.(openai\.)?(api_server|cli\.main)|dynamo\.vllm")),
    ("sglang", re.compile(r"sglang\.launch_server|dynamo\.sglang(\.\w+)*")),
    ("tensorrt_llm", re.compile(r"dynamo\.trtllm|tensorrt_llm\.commands\.serve")),
    ("llamacpp", re.compile(r"llama_cpp\.server")),
)
_PROGRAMS = (
    ("vllm", re.compile(r"vllm"), ("serve",)),
    ("sglang", re.compile(r"sglang"), ("serve",)),
    ("tensorrt_llm", re.compile(r"trtllm-serve"), ()),
    ("lmdeploy", re.compile(r"lmdeploy"), ("serve", "api_server")),
    ("tgi", re.compile(r"text-generation-(launcher|server)"), ()),
    ("llamacpp", re.compile(r"llama-server([-_.]\w+)*"), ()),
    ("ollama", re.compile(r"ollama"), ("serve",)),
)
_SCRIPTS = (
    ("vllm", re.compile(r"(?:.*/)?vllm/entrypoints/(openai/)?api_server\.py")),
    ("tensorrt_llm", re.compile(r"(?:.*/)?tensorrtllm_backend/.*launch_triton_server\.py")),
)
_CONTAINERS = ("docker", "podman", "nerdctl")
_OPTIONS_FILE = frozenset(("extra_llm_api_options", "config"))


class Launch(NamedTuple):
    """The start of an engine.

    Attributes:
        engine: its name.
        place: where it is named.
        words: what follows its program.
        spread: places of words that came out of a variable.
        image: of a container that the command starts.
        options: the container's own options.
    """

    engine: str
    place: Place
    words: tuple[ShellWord, ...]
    spread: frozenset[Place] = frozenset()
    image: Image | None = None
    options: tuple[ShellWord, ...] = ()


def find_launch(line: Line, plain: Callable[[str], str | None]) -> Launch | None:
    """The engine that a command starts, if it starts one.

    Args:
        plain: follows the references of a word.
    """
    words = line.words
    if not words or _base(words[0].text) in _OTHERS or "pip" in [w.text for w in words[:3]]:
        return None
    texts = [plain(word.text) if MARK.search(word.text) else word.text for word in words]
    if _base(texts[0] or "") in _CONTAINERS and "run" in texts[:3]:
        return _container(line, texts, plain)
    image = next((_flag_image(text) for text in texts if text and _flag_image(text)), None)
    for index, text in enumerate(texts):
        if text is None or text.startswith("--"):
            continue
        found = _program(texts, index)
        if found is None:
            continue
        engine, behind = found
        place = (words[index].line, words[index].column)
        if texts[behind : behind + 1] == ["..."]:
            return None
        launch = Launch(engine, place, words[behind:], line.spread, image)
        return _inside(line, launch, plain) if line.container else launch
    return None


def _inside(line: Line, launch: Launch, plain: Callable[[str], str | None]) -> Launch:
    """A launch by a shell in a container that the line starts."""
    for index, word in enumerate(line.container[2:], 2):
        text = plain(word.text) or ""
        image = read_image(text)
        if image.engine is not None and not text.startswith(("-", "/", ".")) and ":/" not in text:
            return launch._replace(image=image, options=line.container[1:index])
    return launch


def _flag_image(text: str) -> Image | None:
    head, _, value = text.partition("=")
    return read_image(value) if head == "--container-image" and value else None


def _program(texts: Sequence[str | None], index: int) -> tuple[str, int] | None:
    """The engine whose program stands at an index, and where its arguments begin."""
    text = texts[index] or ""
    for engine, pattern in (*_SCRIPTS, *_MODULES):
        if pattern.fullmatch(text):
            return engine, index + 1
    base = _base(text)
    for engine, pattern, following in _PROGRAMS:
        if (
            pattern.fullmatch(base)
            and tuple(texts[index + 1 : index + 1 + len(following)]) == following
        ):
            behind = index + 1 + len(following)
            if engine == "tensorrt_llm" and texts[behind : behind + 1] == ["serve"]:
                behind += 1
            return engine, behind
    return None


def _base(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2]


def _container(
    line: Line, texts: Sequence[str | None], plain: Callable[[str], str | None]
) -> Launch | None:
    """`docker run [options] IMAGE [arguments]`."""
    words = line.words
    for index, text in enumerate(texts[2:], 2):
        if text is None or text.startswith(("-", "/", ".")) or "=" in text:
            continue
        if "/" not in text and ":" not in text:
            continue
        image = read_image(text)
        if image.engine is None or re.search(r":/|^\d", text):
            continue
        inner = find_launch(Line(words[index + 1 :], line.spread), plain)
        options = words[1:index]
        if inner is not None:
            return inner._replace(image=image, options=options)
        place = (words[index].line, words[index].column)
        return Launch(image.engine, place, words[index + 1 :], line.spread, image, options)
    return None


def read_container_options(launch: Launch, draft: Draft) -> None:
    """`docker run --gpus 2 -e NAME=VALUE`: devices, and variables that the engine reads."""
    words = launch.options
    rules = dialect(launch.engine)
    for index, word in enumerate(words):
        head, equals, value = word.text.partition("=")
        following = words[index + 1] if index + 1 < len(words) else word
        if head == "--gpus":
            text = (value if equals else following.text).strip("\"'")
            place = (word.line, word.column) if equals else (following.line, following.column)
            if re.fullmatch(r"all|\d+", text):
                draft.put("gpu_count", int(text) if text.isdigit() else text, place, "--gpus")
            elif found := re.fullmatch(r"device=([\d,]+)", text):
                draft.put("gpu_count", len(found[1].split(",")), place, "--gpus")
        elif head in ("-e", "--env"):
            setting = value if equals and head == "--env" else following.text
            name, defined, text = setting.partition("=")
            fact = rules.env.get(name) if rules and defined else None
            if fact is not None:
                place = (following.line, following.column)
                draft.say(fact, text, place, name, through=True)


def read_flags(
    launch: Launch, draft: Draft, files: Callable[[str], Mapped | Node | None] | None = None
) -> None:
    """State what the flags behind a program say.

    Args:
        files: the options files that are within reach, by path.
    """
    rules = dialect(launch.engine)
    if rules is None:
        return
    arguments = _parsed(rules.table, launch.words)
    for argument in arguments:
        name = argument.flag.name if argument.flag else argument.spelled.lstrip("-")
        if name.replace("-", "_") in ("extra_llm_api_options", "config", "extra_engine_args"):
            path = draft.scope.resolve(argument.text).text
            found = files(path) if path and files else None
            if found is not None:
                read_options(launch.engine, found, draft)
    positional = True
    for argument in arguments:
        flag = argument.flag
        if flag is None:
            word = argument.word
            if positional and rules.positional and not word.text.startswith("-"):
                positional = False
                if word.text and not _is_setting(word.text):
                    _state(draft, rules.positional, word, rules.positional, launch)
            continue
        fact = rules.facts.get(_bare(flag.name))
        if fact is not None and argument.values and not argument.key:
            if fact == "model":
                positional = False
            value = argument.values[0]._replace(text=argument.text)
            _state(draft, fact, value, argument.spelled, launch)


def _is_setting(text: str) -> bool:
    return re.match(r"[A-Z_]+=", text) is not None


def _state(draft: Draft, fact: str, word: Word, origin: str, launch: Launch) -> None:
    place = (word.line, word.column)
    draft.say(fact, word.text, place, origin, through=place in launch.spread)


def _parsed(table: Table, words: Sequence[ShellWord]) -> tuple[Argument, ...]:
    """The arguments of a line; a word that may be several flags is none of them."""
    kept = []
    for word in words:
        text = word.text
        try:
            if text.startswith("-"):
                table.meant(text.partition("=")[0].partition(".")[0])
        except UsageError:
            text = "--\0"
        kept.append(Word(text, word.line, word.column))
    return parse(table, kept)


_NESTED = {
    "tensorrt_llm": (
        ("kv_cache_config", "free_gpu_memory_fraction", "gpu_memory_fraction"),
        ("kv_cache_config", "dtype", "kv_cache_dtype"),
    )
}
_OLD_KEYS = {"kv_cache_free_gpu_mem_fraction": "gpu_memory_fraction"}


def read_options(engine: str, source: Mapped | Node, draft: Draft) -> None:
    """State what a map of options says: flags without dashes as keys."""
    nodes = [source] if isinstance(source, Node) else documents(source)
    rules = dialect(engine)
    for node in nodes:
        for outer, inner, fact in _NESTED.get(engine, ()):
            draft.read(fact, node.get(outer, inner))
        for key, value in node.items():
            told = _fact_of(rules, key)
            if told is not None:
                draft.read(told, value)


def _fact_of(rules: Dialect | None, key: str) -> str | None:
    """The fact that a key of a map of options is."""
    if rules is None:
        return None
    bare = key.lstrip("-").replace("_", "-")
    if bare.replace("-", "_") in _OLD_KEYS:
        return _OLD_KEYS[bare.replace("-", "_")]
    if bare.replace("-", "_") in rules.facts:
        return rules.facts[bare.replace("-", "_")]
    try:
        found = rules.table.meant("--" + bare)
    except UsageError:
        return None
    return rules.facts.get(_bare(found.flag.name)) if found else None


def _bare(name: str) -> str:
    """A flag's name where the table has none but its spelling."""
    return name.lstrip("-").replace("-", "_")
