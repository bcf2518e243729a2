"""What the documents of one stream know of each other: ConfigMaps, their variables and files."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.deployments.node import Node
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import KUBERNETES, Refs, Scope
from kvplan.documents.document import Place

# Variables that hold flags: the images' start scripts paste them behind the program.
FLAG_VARIABLES = ("VLLM_ADDITIONAL_ARGS", "VLLM_EXTRA_ARGS", "VLLM_ARGS", "SGLANG_ARGS")


class World:
    """The documents of one stream.

    Attributes:
        refs: the references met in it.
        host: what is defined outside of every container.
        documents: all of them.
    """

    def __init__(self, documents: Iterable[Node], host: dict[str, str] | None = None) -> None:
        self.refs = Refs()
        self.host = Scope(self.refs)
        self.documents = list(documents)
        self._maps: dict[str, Node] = {}
        for node in self._flat():
            if node.get("kind").data in ("ConfigMap", "Secret"):
                kind = node.get("data") if node.get("data") else node.get("stringData")
                self._maps[node.get("metadata", "name").text] = kind

    def _flat(self) -> Iterable[Node]:
        for node in self.documents:
            yield node
            yield from node.get("items").each()
            yield from node.get("objects").each()

    def config(self, name: str) -> Node | None:
        """The data of a ConfigMap of this stream."""
        return self._maps.get(name)

    def file(self, path: str) -> Mapped | None:
        """What a ConfigMap puts under the last part of a path."""
        wanted = path.rstrip("/").rpartition("/")[2]
        found = [data.get(wanted) for data in self._maps.values() if data.get(wanted)]
        return found[0].mapped() if len(found) == 1 else None

    def environment(self, container: Node, outer: Scope | None = None) -> Scope:
        """The variables of a Kubernetes container."""
        scope = Scope(self.refs, outer)
        for source in container.get("envFrom").each():
            data = self.config(source.get("configMapRef", "name").text)
            if data is not None and source.get("configMapRef"):
                for key, value in data.items():
                    self._define(scope, key, value)
        self.add(scope, container.get("env"))
        return scope

    def add(self, scope: Scope, env: Node, style: str = KUBERNETES) -> None:
        """Define what an `env` says: a list of names, of `K=V`, or a mapping."""
        for key, value in env.items():
            self._define(scope, key, value, style)
        for item in env.each():
            if item.is_scalar:
                self._pair(scope, item, style)
                continue
            name = item.first("name", "key").text
            if not name:
                continue
            if item.get("value").is_scalar:
                self._define(scope, name, item.get("value"), style)
                continue
            ref = item.get("valueFrom", "configMapKeyRef")
            data = self.config(ref.get("name").text) if ref else None
            found = data.get(ref.get("key").text) if data is not None else None
            if found is not None and found:
                self._define(scope, name, found, style)
            else:
                scope.define(name, None, item.place())

    def flags_variable(self, container: Node) -> Place | None:
        """Where a variable that holds an engine's flags is named."""
        for item in container.get("env").each():
            if item.get("name").data in FLAG_VARIABLES:
                return item.place()
        return None

    def _define(self, scope: Scope, name: str, value: Node, style: str = KUBERNETES) -> None:
        if value.is_scalar:
            text = self.refs.encode(value.mapped(), style)
            scope.define(name, text.text, text.place())

    def _pair(self, scope: Scope, item: Node, style: str) -> None:
        text = self.refs.encode(item.mapped(), style)
        name, equals, value = text.text.partition("=")
        if equals:
            scope.define(name, value, text.place(len(name) + 1))
