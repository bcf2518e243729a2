"""How llama.cpp lays out a context: cells of key and value rows, and f32 states per sequence.

    ModelSpec -> layer caches -> cells (padding, streams, windows) -> bytes of every cache tensor

`context` is the arithmetic of lengths, `rows` what one layer stores per cell, `caches` the tensors.
The build followed is b11434; what other builds do otherwise is data in `versions`.
"""
