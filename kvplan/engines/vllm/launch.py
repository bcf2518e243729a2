"""A launch command of vLLM, as it is pasted: what runs, which model, and which flags.

    vllm serve MODEL --flag ...                        python -m vllm.entrypoints.openai.api_server
    docker run ... vllm/vllm-openai:v0.19.0 --flag     VLLM_X=1 uv run vllm serve MODEL ...

What stands before the engine's own words (docker's flags, a shell's prefix) is passed over, except
settings of the environment. Flags that leave the cache and the budget as they are say nothing;
unknown ones, and those that kvplan does not follow, are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.kit.argline import Argument, options, parse
from kvplan.engines.kit.words import Word
from kvplan.engines.vllm.options.flags import TABLE
from kvplan.errors import UsageError

_MODULE = re.compile(r"vllm\.entrypoints\.[\w.]+")
_IMAGE = re.compile(
    r"(?:[\w.:-]+/)*(?:vllm-openai|vllm|vllm-[\w-]+)(?::(?P<tag>[\w.-]+))?(?:@sha256:\w+)?"
)
_TAG = re.compile(r"v?(\d+\.\d+\.\d+[\w.]*?)(?:[-+].*)?")
_SETTING = re.compile(r"(?:-e|--env)?=?([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_CONTAINERS = ("docker", "podman", "nerdctl")
_DOCKER_WITH_VALUE = frozenset((
    "-v", "--volume", "-p", "--publish", "-e", "--env", "--name", "--gpus", "--ipc", "--shm-size",
    "--network", "--net", "--runtime", "--env-file", "--entrypoint", "-w", "--workdir", "--device",
    "--restart", "--user", "-u", "--memory", "-m", "--cpus", "--mount", "--label", "-l", "--ulimit",
    "--hostname", "-h", "--group-add", "--security-opt", "--cap-add", "--add-host", "--pull",
    "--platform", "--log-driver", "--log-opt", "--health-cmd", "--cpuset-cpus",
))  # fmt: skip


class Launch(NamedTuple):
    """A launch command.

    Attributes:
        model: the model's name; None when the command names none.
        options: the flags that are read, by the engine's names.
        version: the release that an image's tag names.
        unknown: flags that the engine, as far as kvplan knows, does not have.
        unfollowed: flags that may change the cache in a way that kvplan does not follow.
    """

    model: str | None
    options: dict[str, str]
    version: str | None
    unknown: tuple[str, ...]
    unfollowed: tuple[str, ...]


def read_launch(words: Sequence[Word]) -> Launch:
    """The launch command that words make.

    Raises:
        UsageError: it launches no vLLM, or a flag has a value that it cannot take.
    """
    settings, own, version = _own_words(words)
    model: str | None = None
    kept: list[Argument] = []
    unknown: list[str] = []
    unfollowed: list[str] = []
    for argument in parse(TABLE, (*settings, *own)):
        name = argument.spelled
        if name in ("--model", "--model-tag") and argument.values:
            model = argument.text
        elif argument.flag is None and not name.startswith("-") and "=" not in argument.word.text:
            model = model or argument.word.text
        elif argument.flag is None and name.startswith("-"):
            unknown.append(name)
        else:
            try:
                options(TABLE, [argument])
            except UsageError:
                if argument.flag is not None and argument.flag.effect == "read":
                    raise
                unfollowed.append(name)
            else:
                kept.append(argument)
    return Launch(model, options(TABLE, kept), version, tuple(unknown), tuple(unfollowed))


def _own_words(words: Sequence[Word]) -> tuple[list[Word], Sequence[Word], str | None]:
    """Settings of the environment, the engine's own words, and the image's release."""
    settings: list[Word] = []
    container = any(word.text.rpartition("/")[2] in _CONTAINERS for word in words[:4])
    skip = False
    for index, word in enumerate(words):
        text = word.text
        if skip:
            skip = False
            found = _SETTING.fullmatch(text)
            if found is not None and found[1].startswith("VLLM_"):
                settings.append(word._replace(text=f"{found[1]}={found[2]}"))
            continue
        if container and text in _DOCKER_WITH_VALUE:
            skip = True
            continue
        found = _SETTING.fullmatch(text)
        if found is not None:
            if found[1].startswith("VLLM_"):
                settings.append(word._replace(text=f"{found[1]}={found[2]}"))
            continue
        if text.rpartition("/")[2] == "vllm" and not container:
            rest = words[index + 1 :]
            return settings, rest[1:] if rest and rest[0].text == "serve" else rest, None
        if _MODULE.fullmatch(text):
            return settings, words[index + 1 :], None
        image = _IMAGE.fullmatch(text) if container and index > 1 else None
        if image is not None:
            rest = words[index + 1 :]
            _, inner, _ = _inner(rest)
            return settings, inner, _release(image["tag"])
    raise UsageError(
        "the command launches no engine that kvplan reads",
        hint="known: vllm serve MODEL ..., python -m vllm.entrypoints.openai.api_server ..., "
        "docker run ... vllm/vllm-openai ...",
    )


def _inner(words: Sequence[Word]) -> tuple[None, Sequence[Word], None]:
    """What follows an image: flags, or a command of its own."""
    for index, word in enumerate(words[:6]):
        if word.text.rpartition("/")[2] == "vllm":
            rest = words[index + 1 :]
            return None, rest[1:] if rest and rest[0].text == "serve" else rest, None
        if _MODULE.fullmatch(word.text):
            return None, words[index + 1 :], None
    if words and words[0].text == "serve":
        return None, words[1:], None
    return None, words, None


def _release(tag: str | None) -> str | None:
    found = _TAG.fullmatch(tag or "")
    return found[1] if found is not None else None
