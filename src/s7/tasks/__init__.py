"""Tasks by name. A new one is a file here and a line in this list."""

from s7.settings import unknown
from s7.tasks.fitzhugh_nagumo import FitzHughNagumo
from s7.tasks.image import Image
from s7.tasks.pendulum import Pendulum
from s7.tasks.task import Problem, Task
from s7.tasks.text import Text
from s7.tasks.walker2d import Walker2d

TASKS: dict[str, type[Task]] = {kind.name: kind for kind in (FitzHughNagumo, Pendulum, Walker2d, Text, Image)}


def find_task(name: str) -> type[Task]:
    """The task of that name."""
    if name not in TASKS:
        raise ValueError(unknown("task", name, TASKS))
    return TASKS[name]


__all__ = ["TASKS", "Problem", "Task", "find_task"]
