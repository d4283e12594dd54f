"""Arrays over memory that a caller of compiled code holds, of which the compiler knows how far apart rows are.

They have no reference of their own to count, since a count that is left in a loop keeps it from being vectorised.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from sekai.batching.slab import ALIGNMENT, Slab, padded


def _make(context: Any, builder: Any, kind: Any, data: Any, num_rows: Any, shape: tuple[int, ...]) -> Any:
    """An array of type ``kind``, (num_rows, *shape), over some memory."""
    array = make_array(kind)(context, builder)

    def constant(value: int) -> Any:
        return context.get_constant(types.intp, value)

    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [constant(item * math.prod(shape[k:])) for k in range(len(shape) + 1)]
    pointer = context.get_data_type(kind.dtype).as_pointer()
    populate_array(
        array,
        data=builder.inttoptr(data, pointer) if data.type == constant(0).type else builder.bitcast(data, pointer),
        shape=[num_rows, *map(constant, shape)],
        strides=strides,
        itemsize=constant(item),
        meminfo=None,
        parent=None,
    )
    return array._getvalue()


def columns_of(slab: Slab, names: tuple[str, ...]) -> Callable[[int, int, int, int], tuple[Any, ...]]:
    """Make ``columns(address, n, lo, hi)``: rows ``lo`` to ``hi`` of some columns of a slab for ``n`` rows.

    Of a column without rows it gives all there is, (1, *shape). Where columns lie is said by ``Slab.places``, and once
    more here, in compiled code.

    Args:
        slab: The slab.
        names: Which columns, in the order of the slab.
    """
    if numba.config.DISABLE_JIT:

        def plain(address: int, n: int, lo: int, hi: int) -> tuple[Any, ...]:
            return _plain_columns(slab, names, address, n, lo, hi)

        return plain
    columns = tuple(
        (str(each.dtype), each.shape, each.has_rows, each.row_bytes, each.name in names) for each in slab.columns
    )

    def columns_from(typing_context: Any, address: Any, n: Any, lo: Any, hi: Any) -> Any:
        kinds = [
            types.Array(from_dtype(np.dtype(dtype)), 1 + len(shape), "C")
            for dtype, shape, *_, is_used in columns
            if is_used
        ]
        found = types.Tuple(kinds)

        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = zip(arguments, signature.args, strict=True)
            at, rows, first, last = (context.cast(builder, value, kind, types.intp) for value, kind in numbers)

            def constant(value: int) -> Any:
                return context.get_constant(types.intp, value)

            count, arrays = builder.sub(last, first), []
            of_used = iter(kinds)
            for _, shape, has_rows, row_bytes, is_used in columns:
                if is_used:
                    data = builder.add(at, builder.mul(first, constant(row_bytes))) if has_rows else at
                    length = count if has_rows else constant(1)
                    arrays.append(_make(context, builder, next(of_used), data, length, shape))
                size: Any = constant(padded(row_bytes))
                if has_rows:
                    size = builder.add(builder.mul(rows, constant(row_bytes)), constant(ALIGNMENT - 1))
                    size = builder.and_(size, constant(-ALIGNMENT))
                at = builder.add(at, size)
            return impl_ret_borrowed(context, builder, found, context.make_tuple(builder, found, arrays))

        return found(address, n, lo, hi), make

    columns_of_slab: Callable[[int, int, int, int], tuple[Any, ...]] = intrinsic(columns_from)
    return columns_of_slab


def _plain_columns(slab: Slab, names: tuple[str, ...], address: int, n: int, lo: int, hi: int) -> tuple[Any, ...]:
    size = slab.nbytes(n)
    memory = np.empty(0, np.uint8)
    if size:
        held: Any = (ctypes.c_uint8 * size).from_address(int(address))
        memory = np.frombuffer(held, np.uint8)
    views = slab.views(memory, n)
    used = [each for each in slab.columns if each.name in names]
    return tuple(views[each.name][lo:hi] if each.has_rows else views[each.name] for each in used)


def _rows_of(typing_context: Any, array: Any, lo: Any, hi: Any, width: Any) -> Any:
    if array.layout != "C":
        raise TypeError(f"rows_of: expected a C-contiguous array, got {array}")
    rows = array.copy(ndim=2)

    def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = make_array(array)(context, builder, arguments[0])
        first, last = (context.cast(builder, arguments[k], (lo, hi)[k - 1], types.intp) for k in (1, 2))
        data = builder.gep(whole.data, [builder.mul(first, context.get_constant(types.intp, width.literal_value))])
        made = _make(context, builder, rows, data, builder.sub(last, first), (width.literal_value,))
        return impl_ret_borrowed(context, builder, rows, made)

    return rows(array, lo, hi, width), view


def _read_only_rows_of(typing_context: Any, array: Any, lo: Any, hi: Any, width: Any) -> Any:
    signature, view = _rows_of(typing_context, array.copy(readonly=True), lo, hi, width)
    return signature.return_type(array, lo, hi, width), view


def _plain_rows_of(array: Any, lo: int, hi: int, width: int) -> Any:
    return array.reshape((len(array), width))[lo:hi]


def _plain_read_only_rows_of(array: Any, lo: int, hi: int, width: int) -> Any:
    rows = _plain_rows_of(array, lo, hi, width)
    rows.flags.writeable = False
    return rows


#: Bytes of an array on the stack, of which a thread has some megabytes.
_MOST_SCRATCH = 1 << 16


def _scratch(typing_context: Any, count: Any, dtype: Any) -> Any:
    if not isinstance(count, types.IntegerLiteral):
        raise TypingError(f"scratch: expected a number of items that is in the source, got {count}")
    if not isinstance(dtype, (types.NumberClass, types.DType)):
        raise TypingError(f"scratch: expected a dtype, e.g. np.float64, got {dtype}")
    kind = types.Array(dtype.dtype, 1, "C")
    most = _MOST_SCRATCH // (kind.dtype.bitwidth // 8 if hasattr(kind.dtype, "bitwidth") else 16)
    if not 0 < count.literal_value <= most:
        raise TypingError(f"scratch: expected 1 to {most} items of {kind.dtype}, got {count.literal_value}")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        item = context.get_data_type(kind.dtype)
        memory = cgutils.alloca_once(builder, item, size=context.get_constant(types.intp, count.literal_value))
        length = context.get_constant(types.intp, count.literal_value)
        return impl_ret_borrowed(context, builder, kind, _make(context, builder, kind, memory, length, ()))

    return kind(count, dtype), make


def scratch(count: int, dtype: Any) -> NDArray[Any]:
    """An array of the compiled function that calls it, on its stack, which costs nothing; ``np.empty`` asks for memory.

    It is not to be returned or kept, and in a loop it is the same one each time.

    Args:
        count: How many items, a number in the source, 64 KiB of them at most.
        dtype: Of the items, e.g. ``np.float64``.

    Returns:
        dtype (count,), whatever was there.
    """
    return np.empty(count, dtype)


def _prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    if not isinstance(array, types.Array) or array.ndim != 1 or array.layout != "C":
        raise TypingError(f"prefetch: expected a C-contiguous array of one axis, got {array}")

    def ask(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = context.cast(builder, arguments[1], position, types.intp)
        pointer = builder.gep(make_array(array)(context, builder, arguments[0]).data, [place])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_be_written, keep, of_data = number(1), number(3), number(1)
        builder.call(function, [builder.bitcast(pointer, byte), to_be_written, keep, of_data])
        return context.get_dummy_value()

    return types.none(array, position), ask


def prefetch(array: NDArray[Any], position: int) -> None:
    """Ask the processor for the memory of an item that will be needed soon, where it is not in its caches.

    It changes nothing but the time that takes, and pays where rows are so large that those of a batch do not fit there:
    a step of one row may ask for what that of the next one reads first.

    Args:
        array: Of one axis, C-contiguous.
        position: Of the item.
    """


if numba.config.DISABLE_JIT:
    rows_of, read_only_rows_of = _plain_rows_of, _plain_read_only_rows_of
else:
    # No overload, which would be a function of its own, whose stack is gone when it returns.
    scratch = intrinsic(prefer_literal=True)(_scratch)
    prefetch = intrinsic(_prefetch)
    #: ``rows_of(array, lo, hi, width)``: some rows of a C-contiguous array (n, ...), as (hi - lo, width); the width is
    #: a number in the source.
    rows_of = intrinsic(prefer_literal=True)(_rows_of)
    #: The same, not to be written to.
    read_only_rows_of = intrinsic(prefer_literal=True)(_read_only_rows_of)
