"""Benchmark tasks by name. A task is a file in this package, or a user's class with the name "module:Class"."""

from s7.registry import import_user_module, load_modules, unknown
from s7.tasks.task import Problem, Task

load_modules(__name__)

TASKS: dict[str, type[Task]] = {
    name: kind for name, kind in sorted(Task.registry.builtin.items()) if "name" in vars(kind)
}


def find_task(name: str) -> type[Task]:
    """Find a task.

    Args:
        name: The name of a built-in task, the `name` of a task that is already imported, or "module:Class" for a class
            in a module that Python finds from the current folder. That module is imported.
    """
    if name in TASKS:
        return TASKS[name]
    if ":" in name:
        return _user_task(*name.split(":", 1))
    try:
        return Task.registry.find(name)
    except ValueError:
        raise ValueError(f"{unknown('task', name, TASKS)} (your own tasks are named module:Class)") from None


def _user_task(module_name: str, class_name: str) -> type[Task]:
    module = import_user_module(module_name, f"{module_name}:{class_name}")
    kinds = {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Task)}
    if class_name not in kinds:
        raise ValueError(f"{module.__file__}: {unknown('task', class_name, kinds)}")
    return kinds[class_name]


__all__ = ["TASKS", "Problem", "Task", "find_task"]
