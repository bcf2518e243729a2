"""`kvplan models`: what is in the catalogue."""

from __future__ import annotations

from kvplan.cli.complain import complain
from kvplan.cli.options import REPORT, SPECS, Argument, Command, Option, Values


def run(values: Values) -> int:
    """List the models that match, or show one."""
    from kvplan.errors import UsageError
    from kvplan.report.write import emit

    specs = values["specs"] or None
    if values["name"] is not None:
        filters = [name for name in ("family", "attention", "search") if values[name] is not None]
        if filters:
            raise UsageError(f"--{filters[0]} filters the list; {values['name']} is one model")
        from kvplan.load import load_model

        return emit("model", load_model(values["name"], specs=specs), values)
    from kvplan.plan.models import list_models

    found = list_models(
        family=values["family"],
        attention=values["attention"],
        search=values["search"],
        specs=specs,
        left_out=lambda message: complain(f"warning: {message}"),
    )
    emit("models", found, values)
    if not found and values["attention"] is not None:
        from kvplan.plan.models import attention_words

        complain(f"hint: --attention is one of {', '.join(attention_words(list_models()))}")
    return 0 if found else 1


COMMAND = Command(
    "models",
    "The models kvplan knows, or one of them with its source.",
    run,
    Argument("name", "a model to show", "NAME", required=False),
    (
        Option("family", "only families that begin with this", "NAME"),
        Option("attention", "only models with this in their attention: mla, linear", "LABEL"),
        Option("search", "only models with this text in a name", "TEXT"),
        SPECS,
        *REPORT,
    ),
    example="kvplan models --search qwen3 --attention hybrid-linear",
)
