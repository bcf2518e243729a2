"""The rows of single requests, written while the replay runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kvplan.errors import UsageError

if TYPE_CHECKING:
    from kvplan.replay.request import Request

_HEADING = "request,arrive,admitted,first_token,finish,preemptions,prompt_tokens,output_tokens\n"


@contextmanager
def written(values: dict[str, Any]) -> Iterator[Callable[[Request, int], None] | None]:
    """The function that is told of every request that has ended, None when nobody asks.

    Raises:
        UsageError: the file cannot be written.
    """
    path = values["per_request"]
    if path is None:
        yield None
        return
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"--per-request {path}: cannot be written: {error.strerror}") from None
    with file:
        file.write(_HEADING)

        def told(request: Request, clock: int) -> None:
            file.write(
                f"{request.index},{request.arrive},{request.first},{request.first_token},{clock},"
                f"{request.preemptions},{request.prompt},{request.output}\n"
            )

        yield told
