"""What a kind of file may hold, apart from how it is read.

Specs are small, flat and written by hand, so what YAML offers beyond that is refused: anchors (a
bomb is made of them), tags, several documents. A config.json comes out of a program, so a key that
stands twice is a fault: two readers of the file need not agree on which one counts. Deployment
files live on anchors and merge keys, come many to a stream, carry tags of other tools, and are
often a little wrong, which is what they are checked for.
"""

from __future__ import annotations

from kvplan.errors import ImportRefused, InputError, SpecError
from kvplan.record import Record, doc


class Policy(Record):
    """Bounds, and what is allowed within them."""

    called: str = doc("what such a file is, as an error says it")
    error: type[InputError] = doc("the error that is raised")
    max_bytes: int = doc("bytes of a file")
    max_depth: int = doc("containers inside each other, aliases followed")
    max_values: int = doc("values of a document, each alias counted as what it stands for")
    max_documents: int = doc("documents of a stream", default=1)
    anchors: bool = doc("anchors, aliases and merge keys are followed, else refused", default=False)
    tags: bool = doc("tags of other tools are kept in the text, else refused", default=False)
    twice: bool = doc("the last of several equal keys counts, else they are refused", default=False)
    loose: bool = doc(
        "a key is the text it is written as, and so is a number that is not plainly decimal; else"
        " both are refused",
        default=False,
    )


SPEC = Policy(called="a spec", error=SpecError, max_bytes=2**20, max_depth=16, max_values=200_000)
CONFIG = Policy(
    called="a config",
    error=ImportRefused,
    max_bytes=8 * 2**20,
    max_depth=64,
    max_values=200_000,  # the largest published file (a list of quantised layers) holds 67,072
)
DEPLOYMENT = Policy(
    called="a deployment file",
    error=InputError,
    max_bytes=8 * 2**20,
    max_depth=64,
    max_values=500_000,
    max_documents=5_000,
    anchors=True,
    tags=True,
    twice=True,
    loose=True,
)
