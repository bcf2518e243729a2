"""Python files, through their syntax tree and never run: Modal, Ray, BentoML, plain scripts.

    cmd = ["vllm", "serve", MODEL, "--max-model-len", str(LENGTH)]; cmd += [...]; cmd.extend([...])
    LLM(model=..., tensor_parallel_size=2)   LLMConfig(engine_kwargs=dict(...))
    @app.function(gpu=f"{GPU}:{N}")          os.environ.get("NAME", "default")

Constants of the module are followed through f-strings, `str()` and `int()`. What is added to a
command under a condition is not known to be there, and left out.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from kvplan.deployments.draft import Draft
from kvplan.deployments.facts import ENV, LITERAL, UNRESOLVED
from kvplan.deployments.images import read_image
from kvplan.deployments.kinds.clouds import _INSTALLED
from kvplan.deployments.kinds.scripts import read_script
from kvplan.deployments.launch import find_launch, read_flags
from kvplan.deployments.script import Line
from kvplan.deployments.shell import ShellWord
from kvplan.deployments.text import Mapped
from kvplan.deployments.variables import Ref, Refs, Scope
from kvplan.documents.document import Place

_MOST = 2 * 2**20  # bytes of a file that are parsed
_CALLS = {
    "LLM": "vllm", "AsyncEngineArgs": "vllm", "EngineArgs": "vllm", "AsyncLLMEngine": "vllm",
    "Engine": "sglang", "Runtime": "sglang", "ServerArgs": "sglang",
}  # fmt: skip
_FACTS = {
    "model": "model", "model_path": "model", "max_model_len": "max_model_len",
    "context_length": "max_model_len", "max_num_seqs": "max_num_seqs",
    "max_running_requests": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens",
    "tensor_parallel_size": "tp", "tp_size": "tp", "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp", "gpu_memory_utilization": "gpu_memory_fraction",
    "mem_fraction_static": "gpu_memory_fraction", "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization",
}  # fmt: skip
_OWN = {"max_model_len", "gpu_memory_utilization", "tensor_parallel_size", "mem_fraction_static",
        "context_length", "tp_size", "kv_cache_dtype", "model_path", "model"}  # fmt: skip


class Value(NamedTuple):
    """What an expression is: its value, None where nobody knows, and where it stands."""

    value: Any
    place: Place
    status: str = LITERAL


def read(text: str, environment: dict[str, Value] | None = None) -> list[Draft]:
    """The engines of a Python file."""
    if len(text) > _MOST:
        return []
    try:
        return _Module(ast.parse(text), environment or {}).drafts()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # no Python, or nested deeper than anybody writes it


class _Module:
    """One module.

    Args:
        tree: its syntax.
        environment: variables that are set for it from outside.
    """

    def __init__(self, tree: ast.Module, environment: dict[str, Value]) -> None:
        self._tree = tree
        self._environment = environment
        self._refs = Refs()
        self._scope = Scope(self._refs)
        self._constants: dict[str, ast.expr] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        for node in tree.body:
            target = _target(node)
            if target is not None:
                self._constants[target[0]] = target[1]
            if isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node

    def drafts(self) -> list[Draft]:
        """Every engine."""
        found: list[Draft] = []
        self._walk(self._tree.body, None, {}, found)
        return sorted(found, key=lambda draft: draft.line)

    def _walk(
        self, body: list[ast.stmt], holder: ast.stmt | None, names: dict[str, Value],
        found: list[Draft],
    ) -> None:  # fmt: skip
        before = len(found)
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._walk(node.body, node, names, found)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                outer = holder if isinstance(holder, ast.ClassDef) else node
                caller = self._called(node, holder)
                self._walk(node.body, caller[0] or outer, {**names, **caller[1]}, found)
        self._commands(body, holder, names, found)
        self._calls(body, holder, names, found)
        for draft in found[before:]:
            if holder is not None and not draft.has("gpu_type"):
                self._decorated(holder, names, draft)

    # -- commands as lists ------------------------------------------------------------------

    def _commands(
        self, body: list[ast.stmt], holder: ast.stmt | None, names: dict[str, Value],
        found: list[Draft],
    ) -> None:  # fmt: skip
        lists: dict[str, list[ShellWord]] = {}
        for node in _flat(body):
            target = _target(node)
            if target is not None and isinstance(target[1], ast.List):
                lists[target[0]] = self._items(target[1], names)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                if isinstance(node.value, ast.List) and node.target.id in lists:
                    lists[node.target.id] += self._items(node.value, names)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._grows(node.value, lists, names)
            elif isinstance(node, ast.If):
                self._conditional(node, lists, names)
                self._commands(node.body, holder, names, found)
                self._commands(node.orelse, holder, names, found)
        for value in _anonymous([node for node in _flat(body) if not isinstance(node, ast.If)]):
            lists[f"@{value.lineno}:{value.col_offset}"] = self._items(value, names)
        for words in lists.values():
            launch = find_launch(Line(tuple(words)), lambda t: self._scope.resolve(t).text)
            if launch is None:
                continue
            draft = self._new(holder, launch.place)
            draft.put("engine", launch.engine, launch.place, "command")
            read_flags(launch, draft)
            self._version(launch.engine, draft)
            found.append(draft)

    def _grows(
        self, call: ast.Call, lists: dict[str, list[ShellWord]], names: dict[str, Value]
    ) -> None:
        function = call.func
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            return
        words = lists.get(function.value.id)
        if words is None or not call.args:
            return
        if function.attr == "extend" and isinstance(call.args[0], ast.List):
            words += self._items(call.args[0], names)
        elif function.attr == "append":
            words.append(self._word(call.args[0], names))

    def _conditional(
        self, node: ast.If, lists: dict[str, list[ShellWord]], names: dict[str, Value]
    ) -> None:
        """`if name:` of a name whose value is known is no condition."""
        value = self._value(node.test, names)
        if value.value is None or value.status == UNRESOLVED:
            return
        for inner in node.body if value.value else node.orelse:
            if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
                self._grows(inner.value, lists, names)

    def _items(self, node: ast.List, names: dict[str, Value]) -> list[ShellWord]:
        return [self._word(item, names) for item in node.elts]

    def _word(self, node: ast.expr, names: dict[str, Value]) -> ShellWord:
        """One argument; one that comes from a name is a reference to it."""
        value = self._value(node, names)
        here = (node.lineno, node.col_offset + 1)
        if value.status == LITERAL and value.value is not None:
            return ShellWord(str(value.value), *value.place)
        name = f"@{node.lineno}:{node.col_offset}"
        text = None if value.value is None else str(value.value)
        self._scope.define(name, text, value.place)
        return ShellWord(self._refs.add(Ref(name, None, here)), *here)

    # -- calls with keywords ----------------------------------------------------------------

    def _calls(
        self, body: list[ast.stmt], holder: ast.stmt | None, names: dict[str, Value],
        found: list[Draft],
    ) -> None:  # fmt: skip
        for call in _own_calls(body):
            name = _name(call.func)
            keywords = {item.arg: item.value for item in call.keywords if item.arg}
            if name == "LLMConfig":
                found.append(self._ray(call, keywords, names))
            elif name in _CALLS and set(keywords) & _OWN:
                engine = _CALLS[name]
                draft = self._new(holder, (call.lineno, call.col_offset + 1))
                draft.put("engine", engine, (call.func.lineno, call.func.col_offset + 1), name)
                self._keywords(keywords, names, draft)
                self._version(engine, draft)
                found.append(draft)
            elif name in ("Popen", "run", "call", "check_call", "system") and call.args:
                self._line(call.args[0], holder, names, found)

    def _line(
        self, node: ast.expr, holder: ast.stmt | None, names: dict[str, Value],
        found: list[Draft],
    ) -> None:  # fmt: skip
        """A command as one string."""
        value = self._value(node, names)
        if isinstance(value.value, str) and " " in value.value and value.status != UNRESOLVED:
            text = Mapped(value.value, [(0, *value.place)])
            for draft in read_script(text, Scope(self._refs, self._scope)):
                new = self._new(holder, (node.lineno, 1))
                new.fill(draft)
                self._version(str(new.value("engine")), new)
                found.append(new)

    def _keywords(
        self, keywords: dict[str, ast.expr], names: dict[str, Value], draft: Draft
    ) -> None:
        for key, node in keywords.items():
            fact = _FACTS.get(key)
            if fact is not None:
                self._state(draft, fact, self._value(node, names), key)

    def _state(self, draft: Draft, fact: str, value: Value, origin: str) -> None:
        if value.value is None and value.status != UNRESOLVED:
            return
        draft.put(fact, value.value, value.place, origin, value.status)

    def _ray(self, call: ast.Call, keywords: dict[str, ast.expr], names: dict[str, Value]) -> Draft:
        draft = Draft("LLMConfig", call.lineno, self._scope)
        draft.put("engine", "vllm", self._imported("ray.serve.llm") or (call.lineno, 1),
                  "ray.serve.llm")  # fmt: skip
        loading = _entries(keywords.get("model_loading_config"))
        source = loading.get("model_source", loading.get("model_id"))
        if source is not None:
            self._state(draft, "model", self._value(source, names), "model_source")
        identity = loading.get("model_id")
        if isinstance(identity, ast.Constant):
            draft.name, draft.line = str(identity.value), identity.lineno
        self._keywords(_entries(keywords.get("engine_kwargs")), names, draft)
        kind = keywords.get("accelerator_type")
        if kind is not None:
            self._state(draft, "gpu_type", self._value(kind, names), "accelerator_type")
        scaling = _entries(
            _entries(keywords.get("deployment_config")).get("autoscaling_config")
        ).get("min_replicas")
        if scaling is not None:
            self._state(draft, "replicas", self._value(scaling, names), "min_replicas")
        return draft

    def _imported(self, module: str) -> Place | None:
        for node in self._tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == module:
                return (node.lineno, node.col_offset + 1)
        return None

    # -- what surrounds a command -----------------------------------------------------------

    def _new(self, holder: ast.stmt | None, place: Place) -> Draft:
        named = isinstance(holder, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        name = holder.name if named else "python"  # type: ignore[union-attr]
        return Draft(name, holder.lineno if named and holder else place[0], self._scope)

    def _decorated(self, holder: ast.stmt, names: dict[str, Value], draft: Draft) -> None:
        """`@app.function(gpu="H100:2")`."""
        for decorator in getattr(holder, "decorator_list", []):
            for item in getattr(decorator, "keywords", []):
                if item.arg == "gpu":
                    self._gpu(item.value, names, draft)

    def _gpu(self, node: ast.expr, names: dict[str, Value], draft: Draft) -> None:
        if isinstance(node, ast.JoinedStr):
            inner = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
            parts = [self._value(part, names) for part in inner]
            pieces = [p for p in parts if not (isinstance(p.value, str) and p.value.strip() == ":")]
            if any(piece.value is None for piece in pieces):
                draft.put("gpu_type", None, (node.lineno, 1), "gpu", UNRESOLVED)
                return
            if len(pieces) == 2:
                kind = str(pieces[0].value).rstrip(":")
                place = pieces[0].place if pieces[0].status == ENV else (node.lineno, 1)
                draft.put("gpu_type", kind, place, "gpu", pieces[0].status)
                draft.put("gpu_count", int(pieces[1].value), pieces[1].place, "gpu", ENV)
                return
        value = self._value(node, names)
        if not isinstance(value.value, str):
            return
        kind, colon, count = value.value.partition(":")
        draft.put("gpu_type", kind, value.place, "gpu", value.status)
        if colon and count.isdigit():
            draft.put("gpu_count", int(count), value.place, "gpu", value.status)

    def _version(self, engine: str, draft: Draft) -> None:
        """The image's tag, or what a `pip install` pins."""
        pattern = _INSTALLED.get(engine)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and _name(node.func) == "from_registry" and node.args:
                value = self._value(node.args[0], {})
                image = read_image(str(value.value)) if value.value else None
                if image and image.engine == engine and image.tag:
                    draft.put("version", image.tag, value.place, "image", value.status)
                    return
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern:
                found = pattern.fullmatch(node.value.strip())
                if found:
                    draft.put("version", found[1], (node.lineno, node.col_offset + 1), "pip")
                    return

    def _called(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, holder: ast.stmt | None
    ) -> tuple[ast.stmt | None, dict[str, Value]]:
        """The one place that calls a function, and what it gives; else its parameters are open."""
        names = [item.arg for item in (*function.args.args, *function.args.kwonlyargs)]
        given: dict[str, Value] = {
            name: Value(None, (function.lineno, 1), UNRESOLVED) for name in names
        }
        makes = isinstance(holder, ast.ClassDef) and function.name == "__init__"
        wanted = holder.name if makes and isinstance(holder, ast.ClassDef) else function.name
        calls = [
            (outer, call)
            for outer in self._tree.body
            for call in ast.walk(outer)
            if isinstance(call, ast.Call)
            and (_name(call.func) == wanted or (makes and _binds(call.func, wanted)))
        ]
        if len(calls) != 1 or not names:
            return None, given
        caller, call = calls[0]
        for name, node in zip(names[1:] if makes else names, call.args, strict=False):
            given[name] = self._passed(node)
        for item in call.keywords:
            if item.arg:
                given[item.arg] = self._passed(item.value)
        return (caller if isinstance(caller, (ast.ClassDef, ast.FunctionDef)) else None), given

    def _passed(self, node: ast.expr) -> Value:
        value = self._value(node, {})
        return value._replace(status=ENV if value.status == LITERAL else value.status)

    # -- values -----------------------------------------------------------------------------

    def _value(self, node: ast.expr, names: dict[str, Value], depth: int = 0) -> Value:
        """What an expression is, as far as it can be read off."""
        here = (node.lineno, node.col_offset + 1)
        unknown = Value(None, here, UNRESOLVED)
        if depth > 16:
            return unknown
        if isinstance(node, ast.Constant):
            return Value(node.value, here)
        if isinstance(node, ast.Name):
            if node.id in names:
                return names[node.id]
            constant = self._constants.get(node.id)
            if constant is None:
                return unknown
            value = self._value(constant, {}, depth + 1)
            return value._replace(status=ENV) if value.status == LITERAL else value
        if isinstance(node, ast.Call):
            return self._call_value(node, names, depth)
        if isinstance(node, ast.JoinedStr):
            return self._formatted(node, names, depth)
        return unknown

    def _call_value(self, node: ast.Call, names: dict[str, Value], depth: int) -> Value:
        here = (node.lineno, node.col_offset + 1)
        name = _name(node.func)
        if name in ("str", "int", "float") and len(node.args) == 1:
            value = self._value(node.args[0], names, depth + 1)
            return value._replace(value=_cast(name, value.value))
        if name in ("get", "getenv") and node.args and isinstance(node.args[0], ast.Constant):
            given = self._environment.get(str(node.args[0].value))
            if given is not None:
                return given
            if len(node.args) == 2:
                value = self._value(node.args[1], names, depth + 1)
                return value._replace(status=ENV) if value.value is not None else value
        return Value(None, here, UNRESOLVED)

    def _formatted(self, node: ast.JoinedStr, names: dict[str, Value], depth: int) -> Value:
        here = (node.lineno, node.col_offset + 1)
        parts, status = [], LITERAL
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            value = self._value(inner, names, depth + 1)
            if value.value is None:
                return Value(None, here, UNRESOLVED)
            status = ENV if isinstance(part, ast.FormattedValue) else status
            parts.append(str(value.value))
        return Value("".join(parts), here, status)


def _cast(name: str, value: Any) -> Any:
    try:
        return {"str": str, "int": int, "float": float}[name](value) if value is not None else None
    except (ValueError, TypeError):
        return None


def _target(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name and the expression of a plain assignment."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        (target,) = node.targets
        return (target.id, node.value) if isinstance(target, ast.Name) else None
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        return node.target.id, node.value
    return None


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements, and those of `with` and `try`, which run in any case."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.With, ast.AsyncWith, ast.Try)):
            found += _flat(node.body)
        else:
            found.append(node)
    return found


def _binds(function: ast.expr, name: str) -> bool:
    """`Name.bind(...)`: how Ray makes a deployment of a class."""
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "bind"
        and isinstance(function.value, ast.Name)
        and function.value.id == name
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _own_calls(body: list[ast.stmt]) -> list[ast.Call]:
    """The calls of statements, those inside of functions and classes left to them."""
    found = []
    stack: list[ast.AST] = [
        node for node in body
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]  # fmt: skip
    while stack:
        node = stack.pop(0)
        if isinstance(node, ast.Call):
            found.append(node)
        stack += [
            child for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        ]  # fmt: skip
    return found


def _anonymous(body: list[ast.stmt]) -> list[ast.List]:
    """Lists that are given to a call without a name of their own."""
    return [
        argument
        for call in _own_calls(body)
        for argument in call.args
        if isinstance(argument, ast.List)
        and not (isinstance(call.func, ast.Attribute) and call.func.attr in ("extend", "append"))
    ]


def _entries(node: ast.expr | None) -> dict[str, ast.expr]:
    """The entries of `dict(a=1)` or `{"a": 1}`."""
    if isinstance(node, ast.Call) and _name(node.func) == "dict":
        return {item.arg: item.value for item in node.keywords if item.arg}
    if isinstance(node, ast.Dict):
        return {
            str(key.value): value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    return {}
