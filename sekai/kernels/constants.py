"""What of named tuples is constant to the compiler: fields that hold a word, a bool or None, and what their class has.

A kernel that reads ``params.midprice == "ou"`` is compiled for one market at a time, and has no branch left then, nor
any code that would not be typed: ``None`` where a number is expected, say. The field holds a ``Constant``, whose numba
type says its value, and every read of it becomes that value before numba looks at types. What the class of a named
tuple has besides its fields, functions of one row and constants, is read as if it were a global of the function: so a
row function calls ``params.price.move(...)`` of whichever part ``price`` is. And where a field may hold a word or a
part, ``params.price == "flat"`` is known, too.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import IRProcessing
from numba.extending import models, register_model, typeof_impl


class Constant:
    """What a field holds that is the same whenever the compiled code runs.

    Args:
        value: A str, an int, a bool or None.

    Attributes:
        value: The same.
    """

    def __init__(self, value: str | int | bool | None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


class ConstantType(types.Type):  # type: ignore[misc]
    """The numba type of a ``Constant``: another one for each value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(f"Constant({value!r})")

    @property
    def key(self) -> Any:
        """What tells it from others; True is 1 to Python, and not here."""
        return type(self.value), self.value


register_model(ConstantType)(models.OpaqueModel)


@typeof_impl.register(Constant)  # type: ignore[untyped-decorator]
def _type_of_constant(value: Constant, context: Any) -> ConstantType:
    return ConstantType(value.value)


@lower_constant(ConstantType)  # type: ignore[untyped-decorator]
def _lower_constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def class_members(kind: Any) -> dict[str, Any]:
    """What the class of a named tuple has besides its fields that compiled code may read: kernels and constants."""
    found = {}
    for name in dir(kind):
        if not name.startswith("_") and name not in kind._fields:
            value = inspect.getattr_static(kind, name)
            value = value.__func__ if isinstance(value, staticmethod) else value
            value = value.item() if isinstance(value, np.generic) else value
            if getattr(value, "is_kernel", False) or _is_constant(value):
                found[name] = value
    return found


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return not hasattr(value, "_fields") and all(map(_is_constant, value))
    return value is None or isinstance(value, (str, bool, int, float))


def _type_of(function: Any, arguments: Any, variable: Any) -> Any:
    """The type of an argument, or of a field of one, at any depth; None for anything else."""
    definition = guard(get_definition, function, variable)
    if isinstance(definition, ir.Arg):
        return arguments[definition.index]
    if isinstance(definition, ir.Expr) and definition.op == "getattr":
        owner = _type_of(function, arguments, definition.value)
        if isinstance(owner, types.BaseNamedTuple) and definition.attr in owner.fields:
            return owner.types[owner.fields.index(definition.attr)]
    return None


def _constant_for(function: Any, arguments: Any, value: Any) -> Any:
    """What stands for an expression that reads a constant, or compares a named tuple with one; else None."""
    if not isinstance(value, ir.Expr):
        return None
    if value.op == "getattr":
        owner = _type_of(function, arguments, value.value)
        if isinstance(owner, types.BaseNamedTuple):
            if value.attr not in owner.fields:
                members = class_members(owner.instance_class)
                return ir.Global(value.attr, members[value.attr], value.loc) if value.attr in members else None
            kind = owner.types[owner.fields.index(value.attr)]
            return ir.Const(kind.value, value.loc) if isinstance(kind, ConstantType) else None
    elif value.op == "binop" and value.fn in _ARE_OTHERS:
        for one, other in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
            if isinstance(_type_of(function, arguments, one), types.BaseNamedTuple) and isinstance(
                guard(get_definition, function, other), ir.Const
            ):
                return ir.Const(_ARE_OTHERS[value.fn], value.loc)
    return None


#: What a comparison of a named tuple with a word or None gives: a field may hold either, and code asks which.
_ARE_OTHERS = {operator.eq: False, operator.is_: False, operator.ne: True, operator.is_not: True}


@register_pass(mutates_CFG=False, analysis_only=False)
class _ReadConstants(FunctionPass):  # type: ignore[misc]
    """Put the value in the place of every read of a constant field, or of what the class has."""

    _name = "sekai_read_constants"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        read = [
            (assignment, value)
            for block in state.func_ir.blocks.values()
            for assignment in block.find_insts(ir.Assign)
            if (value := _constant_for(state.func_ir, state.args, assignment.value)) is not None
        ]
        for assignment, value in read:
            assignment.value = value
        if read:
            state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return bool(read)


@register_pass(mutates_CFG=False, analysis_only=True)
class _RefuseOtherReads(AnalysisPass):  # type: ignore[misc]
    """Refuse what reads a constant in another way: nobody knows its value then, and ``is`` takes it for another."""

    _name = "sekai_refuse_other_reads"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                kind = state.typemap.get(assignment.target.name)
                if isinstance(kind, ConstantType) and isinstance(assignment.value, (ir.Expr, ir.Arg)):
                    expected = "expected a constant to be read where it is needed, as in params.kind"
                    raise TypingError(f"{expected}, got another way to the value {kind.value!r}", loc=assignment.loc)
        return False


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, which reads constants before it drops the branches that are never taken."""

    def define_pipelines(self) -> list[Any]:
        """Numba's passes and that one."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_ReadConstants, IRProcessing)
        passes.add_pass_after(_RefuseOtherReads, NopythonTypeInference)
        passes.finalize()
        return [passes]
