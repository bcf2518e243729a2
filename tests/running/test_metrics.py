"""vLLM's metrics: labels as facts, from a file or a URL that is fetched within bounds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvplan.cli import main
from kvplan.errors import InputError, UsageError
from kvplan.running import fetch
from kvplan.running import seen as s
from kvplan.running.fetch import metrics_lines
from kvplan.running.vllm.metrics import read_metrics

METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 0.0
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",\
gpu_memory_utilization="0.9",num_cpu_blocks="None",num_gpu_blocks="8505",\
num_gpu_blocks_override="None",swap_space="4.0"} 1.0
"""


def test_labels_become_facts() -> None:
    """Blocks and block size are figures, the rest settings; `None` says nothing."""
    found = read_metrics(METRICS.splitlines(), "metrics")
    assert found.figures[s.BLOCKS].value == 8505
    assert found.figures[s.BLOCK_SIZE].value == 16
    assert {name: fact.value for name, fact in found.facts.items()} == {
        "model": "Qwen/Qwen3-8B",
        "kv_cache_dtype": "auto",
        "enable_prefix_caching": "true",
    }


def test_newer_labels_give_tokens() -> None:
    """Since 0.32 the log line's figures are labels too, unrounded."""
    text = METRICS.replace(
        'num_gpu_blocks="8505"',
        'num_gpu_blocks="8505",kv_cache_size_tokens="136080",kv_cache_max_concurrency="3.322265625"',
    )
    found = read_metrics(text.splitlines(), "metrics")
    assert found.figures[s.CAPACITY].value == 136080
    assert found.figures[s.CONCURRENCY].value == 3.322265625


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("up 1\n", "no vllm:cache_config_info"),
        ("<html></html>\n", "no vllm:cache_config_info"),
        ('vllm:cache_config_info{num_gpu_blocks="many"} 1\n', "num_gpu_blocks is 'many'"),
    ],
)  # fmt: skip
def test_what_is_no_metrics_of_vllm(text: str, message: str) -> None:
    """Another exporter, a web page, a label that is no count."""
    with pytest.raises(InputError, match=message):
        read_metrics(text.splitlines(), "metrics")


def test_command_on_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks and block size are held against the rules, the model is the metrics' own."""
    path = tmp_path / "metrics.txt"
    path.write_text(METRICS, encoding="utf-8")
    code = main(["verify", "--metrics", str(path), "--engine", "vllm@0.11.0", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {check["name"]: check["ok"] for check in answer["checks"]} == {
        "block_size": True,
        "num_blocks": None,  # nothing says out of how much memory
        "starts": True,
    }
    code = main(
        [
            "verify",
            "--metrics",
            str(path),
            "--engine",
            "vllm@0.11.0",
            "--json",
            "--block-size",
            "32",
        ]
    )
    assert code == 1  # blocks of 16 tokens there, of 32 by the flags
    capsys.readouterr()


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """A server on this host that gives one kind of answer."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def test_a_url_is_fetched(serve: Callable[[Answer], str]) -> None:
    """http://host:port/metrics, as vLLM serves it."""
    url = serve(lambda handler: _send(handler, METRICS.encode()))
    assert list(metrics_lines(url)) == METRICS.splitlines()


def test_errors_of_a_server_are_said(serve: Callable[[Answer], str]) -> None:
    """404, a closed port and a name that nothing answers to."""
    url = serve(lambda handler: _send(handler, b"", 404))
    with pytest.raises(InputError, match="answered 404"):
        list(metrics_lines(url))
    with pytest.raises(InputError, match="cannot be fetched"):
        list(metrics_lines("http://127.0.0.1:1/metrics"))


def test_other_schemes_are_refused(serve: Callable[[Answer], str]) -> None:
    """file:, ftp: and a redirect to them: only http and https are asked."""
    for url in ("file:///etc/passwd", "ftp://host/metrics", "http://"):
        with pytest.raises(UsageError, match="neither"):
            list(metrics_lines(url))
    redirect = serve(lambda handler: _send(handler, b"", 302, Location="file:///etc/passwd"))
    with pytest.raises((UsageError, InputError)):
        list(metrics_lines(redirect))


def test_a_flood_is_cut(serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A body beyond the bound is no metrics."""
    monkeypatch.setattr(fetch, "MAX_BYTES", 1 << 16)
    url = serve(lambda handler: _send(handler, b"a" * (1 << 18)))
    with pytest.raises(InputError, match="larger than"):
        list(metrics_lines(url))


def test_a_silent_server_is_left(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer within the time: the command ends."""
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.2)
    wait = threading.Event()
    url = serve(lambda handler: wait.wait(5) and None)
    with pytest.raises(InputError, match="cannot be fetched"):
        list(metrics_lines(url))
    wait.set()
