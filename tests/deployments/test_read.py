"""What is read of deployment files: values with their places, and nothing that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.deployments.facts import Deployment, Reading
from kvplan.deployments.read import read_file

FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> Reading:
    return read_file((FIXTURES / name).read_text(encoding="utf-8"), name)


def one(name: str) -> Deployment:
    (found,) = read(name).deployments
    return found


def said(deployment: Deployment) -> dict[str, tuple[object, int | None, str]]:
    """Every fact that is not absent: value, line, status."""
    return {
        name: (fact.value, fact.line, fact.status)
        for name, fact in deployment.facts.items()
        if fact.status != "absent"
    }


def test_a_pod_s_script_is_read_with_its_variables() -> None:
    """Abbreviations, underscores and short flags; an init container and a sidecar are no engines.

    `$UNKNOWN` is defined nowhere, so the quantization is not known; the key is no fact.
    """
    assert said(one("kubernetes.yaml")) == {
        "engine": ("vllm", 30, "literal"),
        "version": ("v0.11.0", 25, "literal"),
        "model": ("org/chat-7b", 36, "env"),
        "max_model_len": (16384, 6, "env"),
        "max_num_seqs": (64, 32, "literal"),
        "tp": (2, 32, "literal"),
        "gpu_memory_fraction": (0.85, 33, "env"),
        "quantization": (None, 34, "unresolved"),
        "gpu_count": (2, 40, "literal"),
        "gpu_type": ("NVIDIA-L40S", 18, "literal"),
        "replicas": (3, 13, "literal"),
    }


def test_a_gang_is_one_engine() -> None:
    """Leader and workers are one; the size counts pods, and `--mem-frac` is an abbreviation."""
    found = said(one("gang.yaml"))

    assert found["nodes"] == (4, 7, "literal")
    assert found["replicas"] == (2, 5, "literal")
    assert found["gpu_count"][0] == 8
    assert found["tp"][0] == 32
    assert found["gpu_memory_fraction"][0] == 0.8


def test_compose_defaults_count_and_missing_variables_do_not() -> None:
    """`${LENGTH}` has no default: not known, and never the engine's own."""
    first, second = read("compose.yaml").deployments

    assert said(first)["max_model_len"] == (None, 12, "unresolved")
    assert said(first)["gpu_memory_fraction"] == (0.4, 13, "literal")
    assert said(first)["version"] == ("v0.10.1", 2, "env")
    assert said(second)["max_model_len"] == (8000, 16, "env")
    assert said(second)["gpu_count"] == (1, 6, "literal")


def test_a_script_s_last_assignment_wins_and_a_conditional_one_is_not_known() -> None:
    """Arrays are spread; what stands in a comment is no flag."""
    found = said(one("job.slurm"))

    assert found["tp"] == (8, 5, "env")
    assert found["max_num_seqs"] == (None, 12, "unresolved")
    assert found["max_model_len"] == (32768, 11, "literal")
    assert found["kv_cache_dtype"] == ("fp8", 11, "literal")
    assert found["nodes"] == (2, 2, "literal")
    assert found["gpu_count"] == (8, 3, "literal")
    assert found["gpu_type"] == ("h100", 3, "literal")


def test_a_unit_s_environment_is_followed() -> None:
    """Short flags behind llama-server; what an EnvironmentFile holds is not known."""
    found = said(one("engine.service"))

    assert found["engine"] == ("llamacpp", 4, "literal")
    assert found["model"] == ("/models/a.gguf", 4, "literal")
    assert found["max_model_len"] == (8192, 2, "env")
    assert found["max_num_seqs"] == (4, 5, "literal")
    assert found["kv_cache_dtype"] == ("q8_0", 5, "literal")


def test_python_is_read_and_not_run() -> None:
    """Constants through f-strings and `str()`; what a condition adds is not there."""
    found = said(one("app.py"))

    assert found["max_model_len"] == (4096, 5, "env")
    assert found["tp"] == (2, 4, "env")
    assert found["gpu_count"] == (2, 4, "env")
    assert found["gpu_type"][0] == "H200"
    assert found["version"] == ("0.9.2", 6, "literal")
    assert "max_num_seqs" not in found


def test_a_modelfile_s_layers_are_no_gpus() -> None:
    """`num_gpu` counts layers, and text between triple quotes is the model's."""
    found = said(one("Modelfile"))

    assert found["model"] == ("qwen3:8b", 1, "literal")
    assert found["max_model_len"] == (16384, 2, "literal")
    assert "gpu_count" not in found


@pytest.mark.parametrize(
    ("name", "command"), [("template.yaml", "helm template"), ("patch.yaml", "kustomize build")]
)
def test_sources_of_renderers_are_answered_with_the_command(name: str, command: str) -> None:
    """No facts are read out of a template or of a patch."""
    found = read(name)

    assert found.deployments == ()
    assert found.render is not None
    assert command in found.render


def test_a_broken_document_hides_no_other() -> None:
    """The engine beside it is read; the error names its line."""
    text = (FIXTURES / "gang.yaml").read_text(encoding="utf-8") + "---\nkey: [1\n---\nok: 1\n"
    found = read_file(text, "two.yaml")

    assert len(found.deployments) == 1
    assert len(found.errors) == 1
    assert found.errors[0].startswith("two.yaml:")


def test_a_file_of_something_else_has_no_engine() -> None:
    """Not an error."""
    assert read_file("kind: Service\nspec: {ports: [{port: 80}]}\n", "s.yaml") == Reading()
    assert read_file("inference: yes\n", "s.yaml").deployments == ()
