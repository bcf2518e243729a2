"""GGUF metadata into what the model keeps, which is not always what llama.cpp allocates for it."""

from kvplan.importers.gguf.model import import_gguf

__all__ = ["import_gguf"]
