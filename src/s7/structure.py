"""An Equinox module as JSON and named arrays, and back.

`describe` writes down the class of every node as "module:Name" with its fields, and puts the arrays aside under their
path in the module. `rebuild` restores the module from that, bit by bit, without running any code of the file's choice:

- A class must be in a module that is already imported, and be an Equinox module, a frozen dataclass or a named tuple.
  It is instantiated without calling its constructor.
- A function must be one of JAX's or Equinox's public ones, or the default of the constructor's argument of that name.

Everything else (lambdas, open files, classes of the running script) is refused by `describe`.
"""

import inspect
import sys
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from s7.registry import find_class, is_builtin, load_plugins, qualified_name, require_importable

Arrays = dict[str, np.ndarray]

# Where functions are looked up, and where classes are looked up first so that files do not depend on private modules.
_FUNCTIONS = ("jax.nn", "jax.numpy", "jax.lax", "jax.scipy.special", "jax", "equinox.nn", "equinox")
_PUBLIC_CLASSES = ("s7", "equinox.nn", "equinox")


def describe(module: eqx.Module) -> tuple[Any, Arrays]:
    """The description of a module as plain JSON values, and its arrays by name.

    Raises:
        ValueError: If part of the module could not be restored, naming that part.
    """
    arrays: Arrays = {}
    return _describe(module, (), arrays), arrays


def rebuild(description: Any, arrays: Arrays) -> Any:
    """The module that `describe` wrote down.

    Raises:
        ValueError: If the description is malformed, or refers to a class or function that is not available.
    """
    unused = dict(arrays)
    try:
        module = _rebuild(description, unused)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the description of the module is malformed ({type(error).__name__}: {error})") from None
    if unused:
        raise ValueError(f"arrays that the module does not have: {', '.join(unused)}")
    return module


def _describe(value: Any, path: tuple[str, ...], arrays: Arrays) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _describe_array(value, ".".join(path), arrays)
    if kind in (tuple, list):
        return {kind.__name__: [_describe(item, (*path, str(n)), arrays) for n, item in enumerate(value)]}
    if kind is dict and all(type(key) in (int, str) for key in value):
        return {"dict": [[key, _describe(item, (*path, str(key)), arrays)] for key, item in value.items()]}
    if _is_rebuildable(kind):
        return _describe_instance(value, path, arrays)
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    name = _function_name(value)
    if name is None:
        raise ValueError(f"{'.'.join(path) or 'the module'} is {_in_words(value)}, which cannot be saved")
    return {"function": name}


def _describe_array(value: Any, name: str, arrays: Arrays) -> Any:
    while name in arrays:  # a key with a dot in it may look like a path
        name += "'"
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        arrays[name] = np.asarray(jax.random.key_data(value))
        return {"key": name, "impl": str(jax.random.key_impl(value))}
    kind = "jax" if isinstance(value, jax.Array) else "numpy" if isinstance(value, np.ndarray) else "scalar"
    array = np.array(value, order="C")
    if array.dtype.kind in "OSUMm":
        raise ValueError(f"{name} is an array of {array.dtype}, which cannot be saved")
    arrays[name] = to_stored(array)
    return {"array": name, "type": kind, "dtype": array.dtype.name}


def _describe_instance(value: Any, path: tuple[str, ...], arrays: Arrays) -> Any:
    cls = type(value)
    try:
        require_importable(cls)
    except ValueError as error:
        raise ValueError(f"{'.'.join(path)}: {error}" if path else str(error)) from None
    if issubclass(cls, tuple):
        parts = list(zip(cls._fields, value, strict=True))  # type: ignore[attr-defined]
    else:
        # Not by getattr: Equinox wraps functions that are read from an instance, and tells unset fields from set ones.
        own = vars(value)
        parts = [(field.name, own[field.name]) for field in fields(cls) if field.name in own]
    described = {}
    for name, part in parts:
        if inspect.isfunction(part) and part is _default(cls, name):
            described[name] = {"default": name}
        else:
            described[name] = _describe(part, (*path, name), arrays)
    return {"class": _class_name(cls), "fields": described}


def _rebuild(data: Any, arrays: Arrays) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    match data:
        case {"array": str() as name, "type": str() as kind, "dtype": str() as dtype}:
            return _rebuild_array(_take(arrays, name), name, kind, dtype)
        case {"key": str() as name, "impl": str() as implementation}:
            return jax.random.wrap_key_data(jnp.asarray(_take(arrays, name)), impl=implementation)
        case {"tuple": list(items)}:
            return tuple(_rebuild(item, arrays) for item in items)
        case {"list": list(items)}:
            return [_rebuild(item, arrays) for item in items]
        case {"dict": list(items)}:
            return {key: _rebuild(item, arrays) for key, item in items}
        case {"class": str() as name, "fields": dict(parts)}:
            return _rebuild_instance(name, parts, arrays)
        case {"function": str() as name}:
            return _function(name)
        case {"dtype": str() as name}:
            return np.dtype(name)
    raise ValueError(f"the description of the module is malformed: {str(data)[:80]}")


def _rebuild_array(array: np.ndarray, name: str, kind: str, dtype: str) -> Any:
    array = from_stored(array, jnp.dtype(dtype))
    if kind == "numpy":
        return array
    if kind == "scalar":
        return array[()]
    result = jnp.asarray(array)
    if result.dtype != array.dtype:
        raise ValueError(f'{name} is {dtype}, which needs jax.config.update("jax_enable_x64", True) first')
    return result


def _rebuild_instance(name: str, parts: dict[str, Any], arrays: Arrays) -> Any:
    cls: Any = find_class(name)
    if cls is None:
        load_plugins()
        cls = find_class(name)
    if cls is None:
        module = name.partition(":")[0]
        raise ValueError(f"no class {name!r}; import {module} first, or set S7_PLUGINS={module}")
    if not _is_rebuildable(cls):
        raise ValueError(f"{name} is not an Equinox module, a frozen dataclass or a named tuple")
    values = {
        key: _default(cls, key) if part == {"default": key} else _rebuild(part, arrays) for key, part in parts.items()
    }
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [values.pop(key) for key in cls._fields])
    result = object.__new__(cls)
    for field in fields(cls):
        if field.name in values:
            object.__setattr__(result, field.name, values.pop(field.name))
        elif field.default is MISSING:  # else the class attribute serves as its value
            raise ValueError(f"{name}: the field {field.name!r} is missing")
    # Files of earlier versions may have fields, not set, that no longer exist.
    unknown = [key for key, value in values.items() if value is not None]
    if unknown:
        raise ValueError(f"{name} has no field {', '.join(map(repr, unknown))}")
    return result


def to_stored(array: np.ndarray) -> np.ndarray:
    """An array in a type that files hold: complex numbers as pairs, types such as bfloat16 as their bits."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    return array.view(f"uint{8 * array.dtype.itemsize}") if array.dtype.kind == "V" else array


def from_stored(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array of which `to_stored` made this."""
    stored = to_stored(np.zeros(1, dtype))
    array = widened(array, stored.dtype)
    if array.dtype != stored.dtype or array.shape[array.ndim - stored.ndim + 1 :] != stored.shape[1:]:
        raise ValueError(f"an array is {array.dtype}{list(array.shape)}, expected {dtype}")
    if dtype.kind == "c":
        return np.ascontiguousarray(array).view(dtype)[..., 0]
    return array.view(dtype)


def widened(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array as float32 if that is wanted and the file holds float16; else as it is."""
    return array.astype(dtype) if (array.dtype, dtype) == (np.float16, np.float32) else array


def _take(arrays: Arrays, name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"the array {name} is missing")
    return arrays.pop(name)


def _is_rebuildable(cls: type) -> bool:
    if issubclass(cls, eqx.Module):
        return True
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    is_frozen = is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return is_frozen and "__slots__" not in vars(cls)


def _class_name(cls: type) -> str:
    """ "module:Name", with the public module for classes of s7 and Equinox."""
    if is_builtin(cls) or cls.__module__.partition(".")[0] == "equinox":
        for module in _PUBLIC_CLASSES:
            if find_class(f"{module}:{cls.__name__}") is cls:
                return f"{module}:{cls.__name__}"
    return qualified_name(cls)


def _function_name(value: Any) -> str | None:
    name = getattr(value, "__name__", None)
    if not isinstance(name, str) or name.startswith("_"):
        return None
    homes = (module for module in _FUNCTIONS if getattr(sys.modules.get(module), name, None) is value)
    module = next(homes, None)
    return None if module is None else f"{module}:{name}"


def _function(name: str) -> Any:
    module, _, attribute = name.partition(":")
    found = getattr(sys.modules.get(module), attribute, None) if module in _FUNCTIONS else None
    if not callable(found) or attribute.startswith("_"):
        raise ValueError(f"no function {name!r} among those of jax and equinox that files may name")
    return found


def _default(cls: type, name: str) -> Any:
    """The default of a constructor's argument."""
    parameter = inspect.signature(cls.__init__).parameters.get(name)  # type: ignore[misc]
    return MISSING if parameter is None else parameter.default


def _in_words(value: Any) -> str:
    if inspect.isfunction(value):
        which = "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__module__}.{value.__qualname__}"
        return f"{which} (only public functions of jax and equinox can be restored)"
    return f"a {type(value).__name__}"
