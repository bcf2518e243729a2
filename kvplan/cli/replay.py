"""`kvplan replay`: a trace of requests against one pool, step for step."""

from __future__ import annotations

from kvplan.cli.options import (
    MODEL_HELP,
    NETWORK,
    REPORT,
    SPECS,
    Argument,
    Command,
    Option,
    Values,
)

_TRACE = "a file (CSV, TSV, JSONL), - for standard input, or uniform, shared, chat"


def run(values: Values) -> int:
    """Run a trace; exit code 1 when a request can never be admitted."""
    from kvplan.cli.replay_request import merged, question
    from kvplan.replay.answers import answer
    from kvplan.report.progress import count_progress
    from kvplan.report.replay_writers import written
    from kvplan.report.write import emit, renderer

    renderer("replay", values)  # a slip in the format costs no run
    if values["merge"]:
        found = merged(values)
    else:
        with written(values) as told, count_progress("requests") as moved:
            found = answer(question(values), told, moved)
    emit("replay", found, values)
    if values["plot"] is not None:
        from kvplan.report.replay_svg import picture
        from kvplan.report.write import deliver

        deliver(picture(found), values["plot"])
    return 1 if found.stuck is not None else 0


COMMAND = Command(
    "replay",
    "Replay requests over time against one pool: who runs, who waits, what is found again.",
    run,
    Argument("trace", _TRACE, "TRACE", required=False),
    (
        Option("model", MODEL_HELP, "MODEL"),
        Option("available_memory", "memory of one rank for its cache: 40GiB, 42949672960", "BYTES"),
        Option("num_blocks", "blocks of the pool instead, the null block included", "N"),
        Option("gpu", "the device: what it leaves at least is the pool, and it decides the kernels",
               "NAME"),
        Option("engine", "vllm, with @VERSION", "ENGINE", "vllm"),
        Option("ctx", "tokens of the longest request (max_model_len)", "TOKENS"),
        Option("dtype", "format of the cache", "D", "auto"),
        Option("tp", "tensor parallel ranks", "N", "1"),
        Option("block_size", "tokens per block", "N"),
        Option("max_num_seqs", "sequences per step", "N"),
        Option("max_num_batched_tokens", "tokens per step", "N"),
        Option("engine_args", "more flags of vllm serve, in its own spelling", "FLAGS"),
        Option("step_ms", "milliseconds of trace time in one step", "MS"),
        Option("speed", "how much faster than it was recorded the trace comes", "X", "1"),
        Option("clients", "a closed loop: so many clients, each waits for its answer", "N"),
        Option("all_at_once", "every request is there from the beginning"),
        Option("columns", "names of a trace's columns: t_ms=ts,prompt_tokens=in", "ROLE=NAME,..."),
        Option("unit", "tokens of one hash id  [default: 512, of made-up traces 16]", "TOKENS"),
        Option("sort", "put the trace in order of time first, with DuckDB (kvplan[traces])"),
        Option("where", "only rows that hold this SQL condition, with DuckDB (kvplan[traces])",
               "SQL"),
        Option("rows", "only these rows of the trace: 0-4000", "A-B"),
        Option("limit", "end after so many requests", "N"),
        Option("partial", "a broken line, or Ctrl-C, ends the trace and not the replay"),
        Option("generate", "of a made-up trace: n=1000,seed=1,prompt=100-1000,output=50-400",
               "KEY=VALUE,..."),
        Option("shard", "only the part i of n of the trace", "I/N"),
        Option("merge", "put the JSON reports of shards together", "FILE", many=True),
        Option("processes", "parts of the trace at the same time, put together", "N"),
        Option("scan", "the same with other pools: 500,1000,2000", "BLOCKS,..."),
        Option("what_if", "the same with other options, side by side"),
        Option("estimate", "the closed form of mean occupancy, without a run"),
        Option("per_request", "a row per request, as CSV", "FILE"),
        Option("plot", "the time line as a picture", "FILE.svg"),
        SPECS,
        NETWORK,
        *REPORT,
    ),
    example="kvplan replay azure.csv --model llama3-8b --gpu h100 --step-ms 40",
)  # fmt: skip
