"""Puts the model catalogue into the wheel, with its compiled index beside it.

A broken spec fails the build. An editable install runs from this folder: it gets its index here.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SPECS = "model_specs"


class CatalogueHook(BuildHookInterface):
    """Compiles model_specs/ when a wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Check every spec, write the index, and name the files that belong into the wheel."""
        sys.path.insert(0, self.root)
        try:
            from kvplan.spec.folder import SpecFolder
            from kvplan.spec.index import INDEX_NAME, write
        finally:
            sys.path.remove(self.root)

        folder = os.path.join(self.root, SPECS)
        compiled = SpecFolder(folder, indexed=False).compiled()
        if version == "editable":
            write(os.path.join(folder, INDEX_NAME), compiled)
            return
        self._made = tempfile.TemporaryDirectory()
        index = os.path.join(self._made.name, INDEX_NAME)
        # Times of writing differ from one build to the next and mean nothing once installed.
        write(index, {name: row._replace(modified=0) for name, row in compiled.items()})
        inside = f"kvplan/{SPECS}"
        build_data["force_include"][index] = f"{inside}/{INDEX_NAME}"
        for name in compiled:
            build_data["force_include"][os.path.join(folder, name)] = f"{inside}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the index that was copied into the wheel."""
        if version != "editable":
            self._made.cleanup()
