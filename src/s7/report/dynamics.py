"""The sections about the states of a model: how long they remember, and how much they depend on the input."""

from markupsafe import Markup

from s7.publishing import plots
from s7.publishing.pages import Figure, Paragraph, Part
from s7.publishing.text import count
from s7.report.layer_views import DETAIL, EVENTS, LayerView, layer_views, models_of, one_sequence
from s7.report.predictions import times_of
from s7.report.run import Run
from s7.report.selectivity import first_and_last, selectivity
from s7.report.spectrum import growing, spectrum, time_constants

MEMORY = Markup("""The factor |<i>a<sub>k</sub></i>| by which each state is multiplied at every step of a sequence: a
dot at the median, a bar from the 5th to the 95th percentile. A state with a factor near 1 has a long memory (0.98:
about 50 steps); one near 0 forgets immediately. A long bar means that the memory of the state depends on the input""")
GAPS = " and on the gap before each event. Events without a gap are omitted."
CONSTANTS = Markup("""The time in which a state forgets all but 1/e of its past if the input does not change: a tick at
each state's median over the sequence, a thin line from the 5th to the 95th percentile. Dashed: the length of the
sequence.""")
SELECTIVITY = Markup("""Below the input, for the first and the last layer: the memory of the four states in which it
varies most, and the size of what the input-dependent parts of <i>B<sub>k</sub></i>, <i>C<sub>k</sub></i> and
<i>D<sub>k</sub></i> contribute, divided by the size of what their static parts contribute. At 1 both contribute
equally. Where the lines move, the model treats its input differently from moment to moment.""")


def dynamics(run: Run, prefix: str) -> dict[str, list[Part]]:
    """The parts of the sections "memory" and "selectivity"; none for other architectures."""
    models = models_of(run)
    if models.best is None:
        return {"memory": [Paragraph(f"Not shown: {models.problem}.")]}
    if models.best.config.layer is not None:  # another architecture
        return {}
    example = one_sequence(models.best, run.examples[0])
    try:
        after = layer_views(models.best, example)
        before = layer_views(models.initial, example) if models.initial is not None else []
    except (ValueError, TypeError) as error:
        return {"memory": [Paragraph(f"Not shown: the example does not fit the model ({str(error).splitlines()[0]}).")]}
    times = times_of(example)[:EVENTS]
    duration = float(times[-1] - times[0]) or 1.0
    unit = "steps" if example.dt is None else "in the unit of the gaps"
    caption = MEMORY + (GAPS if example.dt is not None else ".") + _remarks(after, example.length)
    shown = after[0].event[after[0].detail]
    part = f" Shown are events {shown[0] + 1:,} to {shown[-1] + 1:,}." if example.length > DETAIL else ""
    memory, constants, selective = (f"{prefix}{name}" for name in ("spectrum", "constants", "selective"))
    return {
        "memory": [
            Figure(memory, plots.draw(memory, spectrum, before, after), caption),
            Figure(constants, plots.draw(constants, time_constants, before, after, duration, unit), CONSTANTS),
        ],
        "selectivity": [
            Figure(selective, plots.draw(selective, selectivity, example, first_and_last(after)), SELECTIVITY + part)
        ],
    }


def _remarks(after: list[LayerView], length: int) -> str:
    remarks = f" Shown are the first {EVENTS:,} of {length:,} events." if length > EVENTS else ""
    if growing(after):
        remarks += f" In {count(growing(after), 'state')} the factor exceeds 1, so that the state grows."
    return remarks
