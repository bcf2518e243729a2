"""What Hugging Face transformers holds: dynamic, static, quantised and paged caches."""

from kvplan.engines.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
