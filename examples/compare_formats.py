"""How many sequences of 32k tokens fit into 40 GiB, by cache format."""

from kvplan import load_model, size

MODEL = load_model("llama3.1-8b")
BUDGET = 40 * 1024**3

for dtype in ("bf16", "fp8", "q4_0"):
    one = size(MODEL, ctx=32 * 1024, dtype=dtype)
    print(f"{dtype:5} {BUDGET // one.logical.bytes_per_sequence:3} sequences")
