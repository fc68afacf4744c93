"""The README of an exported model: what it reads and answers, and how to run it."""

from typing import Any

from s7.encoders import EventEncoder
from s7.model import S7Model
from s7.version import __version__

_EDGE = """\
# An S7 model for libs7

Exported by s7 {version}. The C library `libs7` runs it one event at a time, without Python.

| file | contents |
|---|---|
| `model.safetensors` | the model as the library reads it: `settings` (int64) and `weights` (float32) |
| `golden.safetensors` | inputs and the outputs that JAX computes for them, with gaps and without |

- Events: {events}
- Time: {time}
- Answer: {answer}

## Run it

`libs7.so`, `s7.h` (C) and `s7.hpp` (C++17) are part of the Python package, in the folder that
`python -c "import s7.native; print(s7.native.include_folder())"` prints. In a checkout of S7, `make edge` builds them
with nothing but a compiler; `make edge CXX=aarch64-linux-gnu-g++` builds them for ARM.

```c
#include <s7.h>

s7_model* model;
s7_error error;
if (s7_model_load("model.safetensors", &model, &error) != S7_OK) puts(error.text);

double difference;  /* from JAX, relative to the largest output; about 1e-6 */
s7_model_check(model, "golden.safetensors", &difference, &error);

size_t size = s7_stream_size(model);
s7_stream* stream;
s7_stream_start(model, aligned_alloc(S7_ALIGNMENT, size), size, &stream);
{push}

float answer[{outputs}];
s7_read(stream, answer);
```
"""


def edge_readme(model: S7Model, unit: str) -> str:
    """The README of a model for the C library.

    Args:
        model: The model.
        unit: The unit of its gaps, such as "ms".
    """
    config = model.config
    encoder: Any = config.encoder
    gaps = "ignored" if config.gaps == "ignored" else "the gap before each event, or none in regular time"
    push = "s7_push_tokens(stream, tokens, gaps, count, NULL);"
    if isinstance(encoder, EventEncoder):
        width, height = encoder.sensor
        events = f"pixels of an event camera of {width} × {height} (`s7_push_events`), or their tokens"
        gaps += f", in {unit} with tokens; `s7_push_events` takes times in microseconds"
        push = "s7_push_events(stream, x, y, p, t, count, NULL);"
    elif encoder.event_shape:
        shape = " × ".join(map(str, encoder.event_shape))
        events = f"{shape} numbers each (`s7_push_vectors`)"
        push = "s7_push_vectors(stream, inputs, gaps, count, NULL);"
    else:
        events = f"tokens from 0 to {encoder.size - 1} (`s7_push_tokens`)"
    labels = ", ".join(map(str, config.classes))
    answer = f"{config.head.outputs} numbers" + (f", the scores of the classes {labels}" if labels else "")
    outputs = config.head.outputs
    return _EDGE.format(version=__version__, events=events, time=gaps, answer=answer, push=push, outputs=outputs)
