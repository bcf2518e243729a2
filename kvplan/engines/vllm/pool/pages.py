"""Making pages equal, so that every group can hand out the same blocks.

The largest page M stays. A smaller page p: a state is padded to M; where p divides M the block
grows by M / p; other attention is padded to M; a latent cannot be (its rows are read flat), and
then windows are kept like full attention, or vLLM gives up.
Source: vllm 0.33.0, v1/core/kv_cache_planning.py unify_kv_cache_spec_page_size.
"""

from __future__ import annotations

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.versions import Rules
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import CacheSpec, LatentSpec, StateSpec


class CannotUnify(Exception):
    """A latent page that does not divide the largest page."""


def unify(runs: list[Run], rules: Rules) -> list[Run]:
    """The runs with one page size; equal specs stay apart as they were.

    Raises:
        CannotUnify: a latent's page neither divides the largest one nor can be padded.
        Refused: a version that does not do this at all.
    """
    pages = {run.spec.page for run in runs}
    if len(pages) <= 1:
        return runs
    if not rules.unifies_pages:
        raise Refused(
            "page-sizes-differ",
            "NotImplementedError",
            f"vllm {rules.version} cannot bring the layers' pages to one size: "
            f"{', '.join(f'{page:,}' for page in sorted(pages))} bytes",
            page_bytes=sorted(pages),
        )
    largest = max(pages)
    return [Run(_fitted(run.spec, largest, rules), run.counts) for run in runs]


def _fitted(spec: CacheSpec, largest: int, rules: Rules) -> CacheSpec:
    if spec.page == largest:
        return spec
    if isinstance(spec, StateSpec) and rules.pads_pages:
        return spec.padded_to(largest)
    if largest % spec.page == 0:
        return spec.grown(largest // spec.page)
    if not isinstance(spec, LatentSpec) and rules.pads_pages:
        return spec.padded_to(largest)
    raise CannotUnify
