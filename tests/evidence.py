"""Where the evidence lies that is too large, or not ours, to stand in this repository.

`make evidence` runs the tests that need it (marker `evidence`): recorded plans of engines with the
configs they were made from, and collections of published configs. `KVPLAN_EVIDENCE` names its
folder; by default it is `shared` beside the repository. tests/data/README.md says what is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2] / "shared"

FOLDER = Path(os.environ.get("KVPLAN_EVIDENCE") or _BESIDE)
CONFIGS = FOLDER / "configs"
TRUTH = FOLDER / "truth"


def check() -> None:
    """End with what is missing, if anything is."""
    needed = [CONFIGS / "FACTS.tsv"]
    needed += [TRUTH / name for name in ("vllm.json", "vllm_configs.json", "transformers.json")]
    missing = [str(path) for path in needed if not path.is_file()]
    if missing:
        sys.exit(
            f"no evidence: {', '.join(missing)}\nset KVPLAN_EVIDENCE to the folder that holds it"
        )
