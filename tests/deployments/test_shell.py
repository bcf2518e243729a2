"""Scripts are cut as a shell cuts them, and never run."""

from __future__ import annotations

import pytest

from kvplan.deployments.launch import find_launch
from kvplan.deployments.script import Script
from kvplan.deployments.text import plain
from kvplan.deployments.variables import Refs, Scope


def words(text: str) -> list[list[str]]:
    script = Script(Scope(Refs())).read(plain(text))
    return [
        [script.scope.resolve(word.text).text or "?" for word in line.words]
        for line in script.lines
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b && c; d | e &", [["a", "b"], ["c"], ["d"], ["e"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a \\\n  b # c\nd", [["a", "b"], ["d"]]),
        ("a > out.txt 2>&1 b", [["a", "b"]]),
        ("X=1; a $X ${X} ${Y:-2} $Y", [["a", "1", "1", "2", "?"]]),
        ("X='1 --flag 2'\na $X \"$X\"", [["a", "1", "--flag", "2", "1 --flag 2"]]),
        ("A=(x 'y z')\nA+=(w)\na \"${A[@]}\"", [["a", "x", "y z", "w"]]),
        ("bash -c 'a b' && c", [["a", "b"], ["c"]]),
        ("a $(rm -rf /) `date` $((1 + 1))", [["a", "?", "?", "?"]]),
        ("cat <<EOF > f\nvllm serve x\nEOF\na", [["cat"], ["a"]]),
        ("if true; then\n a\nfi", [["true"], ["a"]]),
        ('A=(x)\n[ -n "$F" ] && A+=(y)\na "${A[@]}"', [["[", "-n", "?", "]"], ["a", "x"]]),
        ('X=1\n[ -z "$F" ] || X=2\na $X', [["[", "-z", "?", "]"], ["a", "?"]]),
        ("cd /x && X=2\na $X", [["cd", "/x"], ["a", "2"]]),
        ("tmux new -d 'a b'", [["a", "b"]]),
        ("sbatch <<E\na b\nE", [["a", "b"], ["sbatch"]]),
    ],
)
def test_commands(text: str, expected: list[list[str]]) -> None:
    """Each command's words; `?` where only running it could tell."""
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("nohup uv run vllm serve org/m", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model org/m", "vllm"),
        ("numactl -c 0 /opt/bin/llama-server -m a.gguf", "llamacpp"),
        ("docker run --gpus all ghcr.io/huggingface/text-generation-inference:3 --model-id a/b",
         "tgi"),
        ("mpirun -n 2 trtllm-serve serve org/m", "tensorrt_llm"),
        ("lmdeploy serve api_server org/m", "lmdeploy"),
        ("docker run x/vllm-openai:v1 bash -c 'vllm serve a/b'", "vllm"),
        ("vllm bench serve --model org/m", None),
        ("echo vllm serve org/m", None),
        ("pip install vllm serve", None),
        ("kubectl exec pod -- ls", None),
    ],
)  # fmt: skip
def test_which_engine_a_command_starts(text: str, engine: str | None) -> None:
    """Wrappers in front are passed; a program that only names an engine starts none."""
    script = Script(Scope(Refs())).read(plain(text))
    found = find_launch(script.lines[0], lambda word: script.scope.resolve(word).text)

    assert (found.engine if found else None) == engine
