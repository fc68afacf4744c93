"""The card of a shared model: what it is, how well it does, what it reads, and how to use it."""

from typing import Any

from s7.config import ModelConfig
from s7.forms import Static
from s7.hub import OWNER
from s7.model import S7Model
from s7.publishing.text import metric_name, metric_value
from s7.records import Result, RunRecord
from s7.version import __version__

_CARD = """\
---
library_name: s7-ssm
license: apache-2.0
tags:
- state-space-model
- s7
{tags}---

# {name}

{about}

```python
import s7

model = s7.load("{name}")        # {found}
answers = s7.predict(model, inputs, dt)
{stream}```

- **Reads**: {reads}
- **Answers**: {answers}
- **Time**: {time}
- **Size**: {parameters:,} parameters{stored}; {shape}

{results}
{golden}"""

_STREAM = "stream = s7.Stream(model)        # event by event\n"
_GOLDEN = """`golden.safetensors` holds random inputs and the outputs of this model, to check other implementations.
"""

_RESULTS = """\
## Results

| data | {metric} |
|---|---|
{rows}
{protocol} Seed {seed}, {epochs} epochs, {kept}. One run: no deviation over seeds is known.
{command}
The model was not tested on other data than these, and was not made for decisions about people.

"""

_FOUND = "pip install 's7-ssm[hub]', or a copy of this folder"


def model_card(
    model: S7Model, name: str, record: RunRecord | None, *, streams: bool = True, rounded: bool = False
) -> str:
    """The README of a shared model, with YAML front matter.

    Args:
        model: The model.
        name: The name under which it is shared.
        record: The record of the run that trained it, if known.
        streams: Whether it can read event by event, so that golden.safetensors is in the folder.
        rounded: Whether the parameters are stored in float16.
    """
    config = model.config
    result = None if record is None else record.result
    encoder: Any = config.encoder
    shape = " × ".join(map(str, encoder.event_shape))
    reads = f"events of {shape} numbers" if encoder.event_shape else f"tokens from 0 to {encoder.size - 1}"
    if hasattr(encoder, "sensor"):
        width, height = encoder.sensor
        reads = f"tokens of events of a camera of {width} × {height} pixels (`s7.tokenize`)"
    labels = ", ".join(map(str, config.classes))
    unit = "" if config.time_unit is None else f"; the model's unit of time is {config.time_unit:g}"
    return _CARD.format(
        name=name,
        found="part of the package" if name.startswith(f"{OWNER}/") else _FOUND,
        tags=_tags(result),
        about=_about(result, "state-space model" if _is_static(config) else "selective state-space model"),
        stream=_STREAM if streams else "",
        golden=_GOLDEN if streams else "",
        reads=reads,
        answers=f"{config.head.outputs} numbers" + (f", the scores of the classes {labels}" if labels else ""),
        time=f"gaps before events are {'used' if config.reads_gaps else 'ignored'}{unit}",
        stored=", rounded to float16 after the results below were measured" if rounded else "",
        parameters=model.parameter_count,
        shape=f"{config.depth} blocks of width {config.width} with {config.state} states",
        results="" if record is None or result is None else _results(result, record),
    )


def _tags(result: Result | None) -> str:
    """The rest of the front matter: the task as a tag and a data set, and the metric."""
    if result is None or not result.task:
        return ""
    return f"- {result.task}\ndatasets:\n- {result.task}\nmetrics:\n- {result.metric}\n"


def _is_static(config: ModelConfig) -> bool:
    """Whether no matrix of the layers depends on the input."""
    return isinstance(config.form, Static) and not getattr(config.transition, "selective", True)


def _about(result: Result | None, kind: str) -> str:
    if result is None or not result.task:
        return f"A {kind}, written by s7 {__version__}."
    version = result.versions.get("s7", __version__)
    return f"A {kind} for {result.title or result.task}, trained by s7 {version}."


def _where(result: Result) -> str:
    """How long the training took, and on which machine, as far as known."""
    seconds = "" if result.seconds is None else f" in {result.seconds / 60:.1f} minutes"
    return seconds + (f" on {result.machine}" if result.machine else "")


def _results(result: Result, record: RunRecord) -> str:
    command = record.command
    last = record.section("train").get("keep") == "last"
    metric = result.metric
    values = {"validation": result.valid, "test": result.test}
    rows = "".join(
        f"| {data} | {metric_value(metric, found[metric])} |\n" for data, found in values.items() if metric in found
    )
    note = f": {result.protocol_note}" if result.protocol_note else ""
    protocol = f"Protocol {result.protocol}{note}." if result.protocol else ""
    return _RESULTS.format(
        metric=metric_name(metric),
        rows=rows,
        protocol=protocol,
        seed=result.seed,
        epochs=result.epochs,
        kept="the last one" if last else "the best one by validation data",
        command="" if command is None else f"\nTrained{_where(result)} by\n\n    {command}\n",
    )
