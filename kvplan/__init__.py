"""kvplan: how much memory the KV cache of a language model takes, to the byte, without a GPU."""
