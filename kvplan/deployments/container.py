"""One container: its command, its variables, its image, its devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kvplan.deployments.dialects import dialect
from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import LITERAL, UNRESOLVED
from kvplan.deployments.gpus import read_resources
from kvplan.deployments.images import Image, read_image
from kvplan.deployments.launch import Launch, find_launch, read_container_options, read_flags
from kvplan.deployments.node import Node
from kvplan.deployments.script import Line, Script
from kvplan.deployments.shell import Scanner, ShellWord
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import KUBERNETES, SCRIPTED, Scope
from kvplan.deployments.world import FLAG_VARIABLES, World
from kvplan.documents.document import Place

# Variables that images turn into flags: every wrapper has its own, these are what they agree on.
_WRAPPED = {
    "MODEL": "model", "MODEL_NAME": "model", "MODEL_ID": "model", "LLM_MODEL_ID": "model",
    "MAX_MODEL_LEN": "max_model_len", "MAX_NUM_SEQS": "max_num_seqs",
    "MAX_NUM_BATCHED_TOKENS": "max_num_batched_tokens", "TENSOR_PARALLEL_SIZE": "tp",
    "PIPELINE_PARALLEL_SIZE": "pp", "DATA_PARALLEL_SIZE": "dp",
    "GPU_MEMORY_UTILIZATION": "gpu_memory_fraction", "KV_CACHE_DTYPE": "kv_cache_dtype",
    "QUANTIZATION": "quantization",
}  # fmt: skip
_SERVERS = re.compile(r"(?:.*/)?(python[\d.]*|api_server\.py|-m|uv|run)")
_SHELL = re.compile(r"(?:.*/)?(ba|da|z|k)?sh")


class Container:
    """One container of a Kubernetes object, a compose file or a chart's values.

    Args:
        name: what the file calls it.
        place: where it begins.
        world: the stream around it.
        scope: its variables.
    """

    def __init__(self, name: str, place: Place, world: World, scope: Scope) -> None:
        self.world = world
        self.scope = scope
        self.draft = Draft(name, place[0], scope)
        self.place = place
        self.image = Image(None, None, "")
        self._image_place = self._tag_place = place
        self.script = Script(Scope(scope.refs, scope))
        self._image_status = LITERAL
        self._words: list[ShellWord] = []
        self._command: list[ShellWord] = []
        self._seen = False  # whether the script that it starts is in this stream

    def read_image(self, node: Node, tag: Node | None = None, style: str = KUBERNETES) -> None:
        """Take the image, written whole or as repository and tag."""
        if not node.is_scalar:
            return
        self.take_image(self.scope.refs.encode(node.mapped(), style))
        if tag is not None and tag.is_scalar:
            said = tag.text.strip()
            self.image = self.image._replace(tag=None if said in ("latest", "") else said)
            self._tag_place = tag.place()

    def take_image(self, text: Mapped) -> None:
        """Take the image out of a text whose references are marked."""
        self._image_place = self._tag_place = text.place()
        found = self.scope.resolve(text.text)
        self._image_status = found.status
        self.image = read_image(found.text if found.text is not None else text.text)
        if found.text is None:
            self.image = self.image._replace(tag="")  # there is one, and nobody knows which

    def add_words(self, node: Node, style: str = KUBERNETES, *, command: bool = False) -> None:
        """Take arguments: a list, or one string."""
        words: list[ShellWord] = []
        style = SCRIPTED if style == KUBERNETES else style
        if node.is_scalar:
            words = self.split(self.scope.refs.encode(node.mapped(), style))
        for item in node.each():
            if item.is_scalar:
                words += self._item(self.scope.refs.encode(item.mapped(), style))
        self._words += words
        if command:
            self._command += words

    def take_line(self, text: Mapped, *, command: bool = False) -> None:
        """Take a whole command line whose references are marked."""
        words = self.split(text)
        self._words += words
        if command:
            self._command += words

    def split(self, text: Mapped) -> list[ShellWord]:
        """The words of one string, of which every command counts."""
        scanner = Scanner(text, self.scope.refs, operators=False, style="none")
        return [word for command in scanner.commands() for word in command.words]

    def _item(self, text: Mapped) -> list[ShellWord]:
        """One item of a list: an argument, or a flag and its value in one."""
        raw = text.text
        found = re.match(r"\s*(--?[\w.-]+)[ \t]+(?=\S)", raw)
        if found and "\n" not in raw.strip():
            end = found.end()
            head = ShellWord(found[1], *text.place(found.start(1)))
            value = text.part(end)
            return [head, *self.split(value)]
        inside = text if re.search(r"\s", raw) else None
        return [ShellWord(raw, *text.place(), inside is not None, inside)]

    def launches(self) -> list[Launch]:
        """The engines that its command starts."""
        script = self.script
        first = self._words[0].text if self._words else ""
        if _SHELL.fullmatch(first):
            script.shell(self._words)
        elif self._command and (text := self._file(first)) is not None and isinstance(text, Mapped):
            script.read(text)
            self._seen = True
        else:
            script.lines.append(Line(self._plain(self._words)))
        found = [
            launch
            for line in script.lines
            if (launch := find_launch(line, lambda text: script.scope.resolve(text).text))
        ]
        self.draft.scope = script.scope
        return found

    def _plain(self, words: list[ShellWord]) -> tuple[ShellWord, ...]:
        """Words that no shell reads: what only a shell would replace is not known."""
        return tuple(
            word._replace(
                text=self.scope.refs.encode(
                    Mapped(word.text, [(0, word.line, word.column)]), KUBERNETES
                ).text
            )
            for word in words
        )

    def telling(self, engine: str) -> Place | None:
        """The first flag that tells of an engine."""
        for flags in (r"--(gpu[-_]mem|max[-_]model)", r"--(kv[-_]cache|tensor|max[-_]num)"):
            for word in self._words:
                if re.match(flags, word.text):
                    return (word.line, word.column)
        return None

    def texts(self) -> Iterator[tuple[str, Callable[[int], Place]]]:
        """The texts of its words, and the place of each offset."""
        for word in self._words:
            text = word.inside or Mapped(word.text, [(0, word.line, word.column)])
            yield text.text, text.place

    def read(self, *, needs_device: bool = False) -> Draft | None:
        """The engine of this container; None where it starts none."""
        found = self.launches()
        if found:
            launch = found[0]
            self._named(launch.engine, launch.place)
            self._environment(launch.engine)
            read_container_options(launch, self.draft)
            read_flags(launch, self.draft, self._file)
            self._version(launch.image)
            return self.draft
        engine = self._by_image()
        if engine is None:
            return None
        self._named(engine, self._image_place)
        self._environment(engine)
        if not self._command or all(_SERVERS.fullmatch(w.text) for w in self._command):
            words = self._plain(self._words[len(self._command) :])
            read_flags(Launch(engine, self._image_place, words), self.draft, self._file)
        self._wrapped()
        self._version(None)
        if engine == "nim" and not self.draft.has("model"):
            self.draft.put("model", self.image.repository, self._image_place, "image")
        return self.draft

    def start(self, engine: str, place: Place) -> Draft:
        """The engine that a field names, not a command: all words are its flags."""
        self._named(engine, place)
        self._environment(engine)
        read_flags(Launch(engine, place, self._plain(self._words)), self.draft, self._file)
        self._version(None)
        return self.draft

    def _named(self, engine: str, place: Place) -> None:
        if engine == "huggingfaceserver":  # runs vLLM or transformers, as the model has it
            self.draft.put("engine", None, place, "image", UNRESOLVED)
        elif not self.draft.has("engine"):
            self.draft.put("engine", engine, place, "command")

    def _by_image(self) -> str | None:
        """The engine of the image, where the container starts the image's own program."""
        engine = self.image.engine
        words = [word.text for word in self._command]
        if engine is None or self._seen:
            return None
        if words and not all(_SERVERS.fullmatch(word) for word in words):
            starts_script = len(words) <= 2 and words[-1].endswith(".sh")
            return engine if starts_script and engine in ("tensorrt_llm", "vllm", "tgi") else None
        return engine

    def _file(self, path: str) -> Mapped | Node | None:
        for name, text in self.script.files.items():
            if name == path:
                return text
        return self.world.file(path)

    def _environment(self, engine: str) -> None:
        """What the engine reads from variables itself, and flags that a variable holds."""
        names = self.scope.names()
        rules = dialect(engine)
        for name, fact in rules.env.items() if rules else ():
            if name in names:
                self.variable(name, fact)
        for name in FLAG_VARIABLES:
            given = names.get(name)
            if given is not None and given.text:
                words = self.split(Mapped(given.text, [(0, *given.place)]))
                spread = frozenset((word.line, word.column) for word in words)
                read_flags(Launch(engine, given.place, tuple(words), spread), self.draft)

    def _wrapped(self) -> None:
        """Variables that the image's own start script turns into flags."""
        names = self.scope.names()
        for name, fact in _WRAPPED.items():
            for spelled in (name, f"VLLM_{name}", f"SGLANG_{name}"):
                if spelled in names and not self.draft.has(fact):
                    self.variable(spelled, fact)

    def variable(self, name: str, fact: str) -> None:
        """State a fact by a variable."""
        given = self.scope.find(name)
        if given is None:
            return
        if given.text is None:
            self.draft.put(fact, None, given.place, name, UNRESOLVED)
        else:
            self.draft.say(fact, given.text, given.place, name, through=True)

    def _version(self, image: Image | None) -> None:
        image = image or self.image
        if image.engine is None or self.draft.has("version"):
            return
        if image.tag:
            status = self._image_status if image is self.image else LITERAL
            self.draft.put("version", image.tag, self._tag_place, "image", status)
        elif image.tag == "":
            self.draft.put("version", None, self._tag_place, "image", UNRESOLVED)


def kubernetes_container(node: Node, world: World, outer: Scope | None = None) -> Container:
    """A container as Kubernetes writes it."""
    scope = world.environment(node, outer)
    found = Container(node.get("name").text or node.key, node.place(), world, scope)
    image = node.get("image")
    if image.is_map:
        found.read_image(image.get("repository"), image.get("tag"))
    else:
        found.read_image(image)
    found.add_words(node.get("command"), command=True)
    found.add_words(node.get("args"))
    read_resources(node.get("resources"), found.draft)
    return found
