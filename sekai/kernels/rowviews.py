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
from numba.core import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

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


if numba.config.DISABLE_JIT:
    rows_of, read_only_rows_of = _plain_rows_of, _plain_read_only_rows_of
else:
    #: ``rows_of(array, lo, hi, width)``: some rows of a C-contiguous array (n, ...), as (hi - lo, width); the width is
    #: a number in the source.
    rows_of = intrinsic(prefer_literal=True)(_rows_of)
    #: The same, not to be written to.
    read_only_rows_of = intrinsic(prefer_literal=True)(_read_only_rows_of)
