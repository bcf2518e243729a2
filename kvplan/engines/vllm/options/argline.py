"""A line of vLLM's own flags, as on its command line, read into options.

Flags that leave the cache as it is (`--port 8000`) are passed over; see `other_flags`. Of a flag
given twice the last value counts, and values given key by key after whole ones.
Source of the forms: vllm 0.33.0, utils/argparse_utils.py FlexibleArgumentParser.
"""

from __future__ import annotations

from kvplan.engines.kit.argline import options, parse
from kvplan.engines.kit.words import split_words
from kvplan.engines.vllm.options.flags import TABLE


def split_engine_args(text: str) -> dict[str, str]:
    """`--engine-args` as options.

    Raises:
        UsageError: a flag that vLLM lacks or that is not modelled, a missing value, a stray word.
    """
    return options(TABLE, parse(TABLE, split_words(text)))
