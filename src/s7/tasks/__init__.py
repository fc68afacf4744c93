"""Tasks by name. A new one is a file here and a line in this list; one's own is named by its module and class."""

import sys
from importlib import import_module

from s7.settings import unknown
from s7.tasks.dvs_gesture import DvsGesture
from s7.tasks.eigenworms import EigenWorms
from s7.tasks.fitzhugh_nagumo import FitzHughNagumo
from s7.tasks.human_activity import HumanActivity
from s7.tasks.image import Image
from s7.tasks.listops import ListOps
from s7.tasks.nmnist import NMnist
from s7.tasks.pathfinder import Pathfinder, PathX
from s7.tasks.pendulum import Pendulum
from s7.tasks.retrieval import Retrieval
from s7.tasks.shd import Shd
from s7.tasks.spoken_digits import SpokenDigits
from s7.tasks.ssc import Ssc
from s7.tasks.task import Problem, Task
from s7.tasks.text import Text
from s7.tasks.walker2d import Walker2d

_KINDS: tuple[type[Task], ...] = (
    *(FitzHughNagumo, Pendulum, Walker2d, HumanActivity, EigenWorms),
    *(ListOps, Text, Retrieval, Image, Pathfinder, PathX),
    *(DvsGesture, NMnist, Shd, Ssc, SpokenDigits),
)
TASKS: dict[str, type[Task]] = {kind.name: kind for kind in _KINDS}


def find_task(name: str) -> type[Task]:
    """The task of that name; `module:Class` is one's own, in a module that Python finds from here."""
    if ":" in name:
        return _own_task(*name.split(":", 1))
    if name not in TASKS:
        raise ValueError(f"{unknown('task', name, TASKS)} (one's own is module:Class)")
    return TASKS[name]


def _own_task(module_name: str, class_name: str) -> type[Task]:
    # A command's path starts where the command is, not where it is called.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise ValueError(f"no module {module_name!r} here or where Python looks; it should hold {class_name}") from None
    kinds = {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Task)}
    if class_name not in kinds:
        raise ValueError(f"{module.__file__}: {unknown('task', class_name, kinds)}")
    return kinds[class_name]


__all__ = ["TASKS", "Problem", "Task", "find_task"]
