"""A builder of ONNX graphs: operators become methods, arrays become constants, names are made up."""

from typing import Any

import numpy as np

from s7.version import __version__

# Every operator that is used exists in this version of the operator set, which runtimes have had since 2022.
OPERATORS, FORMAT = 17, 8


class Graph:
    """An ONNX graph under construction. Values are known by their names."""

    def __init__(self) -> None:
        import onnx

        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[tuple, tuple[str, Any]] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._count = 0

    def input(self, name: str, dtype: type, shape: tuple[int, ...]) -> str:
        """Declare an input and return its name."""
        self._inputs.append(self._declared(name, dtype, shape))
        return name

    def output(self, name: str, value: str, dtype: type, shape: tuple[int, ...]) -> None:
        """Declare an output with this value."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._declared(name, dtype, shape))

    def constant(self, value: Any, dtype: type = np.float32) -> str:
        """Return the name of a constant. Equal constants are stored once."""
        array: np.ndarray = np.ascontiguousarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = name, self._onnx.numpy_helper.from_array(array.reshape(np.shape(value)), name)
        return self._constants[key][0]

    def apply(self, operator: str, *values: str, **attributes: Any) -> str:
        """Apply an operator with one result and return the name of the result."""
        self._count += 1
        result = f"value_{self._count}"
        self._nodes.append(self._onnx.helper.make_node(operator, list(values), [result], **attributes))
        return result

    def add(self, first: str, second: Any) -> str:
        """first + second."""
        return self.apply("Add", first, self._value(second))

    def subtract(self, first: Any, second: Any) -> str:
        """first - second."""
        return self.apply("Sub", self._value(first), self._value(second))

    def multiply(self, first: str, second: Any) -> str:
        """first * second."""
        return self.apply("Mul", first, self._value(second))

    def divide(self, first: Any, second: Any) -> str:
        """first / second."""
        return self.apply("Div", self._value(first), self._value(second))

    def linear(self, W: Any, vector: str) -> str:
        """W u, for a matrix of shape (outputs, inputs)."""
        return self.apply("MatMul", self.constant(W), vector)

    def bilinear(self, W: Any, vector: str, other: str) -> str:
        """The sums over p and j of W[h, p, j] other_p vector_j."""
        rows, columns, inputs = np.shape(W)
        matrix = self.reshape(self.linear(np.reshape(W, (rows * columns, inputs)), vector), (rows, columns))
        return self.apply("MatMul", matrix, other)

    def reshape(self, value: str, shape: tuple[int, ...]) -> str:
        """The value in another shape."""
        return self.apply("Reshape", value, self.constant(shape, np.int64))

    def where(self, condition: str, yes: Any, no: Any) -> str:
        """`yes` where the condition holds, `no` elsewhere."""
        return self.apply("Where", condition, self._value(yes), self._value(no))

    def positive(self, value: str) -> str:
        """Whether the value is larger than zero."""
        return self.apply("Greater", value, self.constant(0.0))

    def serialized(self, metadata: dict[str, str]) -> bytes:
        """Return the checked model as bytes."""
        helper = self._onnx.helper
        constants = [constant for _, constant in self._constants.values()]
        graph = helper.make_graph(self._nodes, "step", self._inputs, self._outputs, constants)
        operators = [helper.make_opsetid("", OPERATORS)]
        model = helper.make_model(
            graph, opset_imports=operators, ir_version=FORMAT, producer_name="s7", producer_version=__version__
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def _declared(self, name: str, dtype: type, shape: tuple[int, ...]) -> Any:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)

    def _value(self, value: Any) -> str:
        return value if isinstance(value, str) else self.constant(value)
