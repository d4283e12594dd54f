"""What a price model is, for markets that have one and for who writes one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import getattr_static
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from sekai.kernels import jit
from sims.checks import warn_caller


class NoState(NamedTuple):
    """The ``State`` of a model that remembers nothing but the price, or the ``Derived`` of one that derives nothing."""


class PriceModel(Protocol):
    """The class of a price model: a named tuple of its parameters, with what follows as attributes of the class.

    Functions are static methods. A model may have one more, ``check_step(model, derived, dt)``: as ``check``, for what
    depends on the time of a step.

    Each parameter is a number that may differ between sub-envs or be ``Randomized``, an array that all of them share,
    or a word or None, which is fixed. A market has a model as a part (``prices: tuple = Geometric()`` in its
    ``Params``), keeps its ``State`` and what ``derive`` gives as parts too, and calls its functions from row functions.
    They are compiled by ``sekai.kernels.jit``, act on row ``i`` alone, and draw from its stream.

    Attributes:
        State: A named tuple class: the columns that a row has beside its price; ``NoState`` for none.
        Derived: A named tuple class of finite numbers: what follows from the parameters per step.
        is_positive: Whether the price is above 0 whatever happens, rounding aside, if it begins there.
        check: ``check(model)``, in plain Python, with the numbers of one sub-env: a TypeError or ValueError whose
            message begins with the names of the fields, "alpha, beta: ...". What is legal and likely a slip it returns,
            as a list of such messages, to be warned of.
        derive: ``derive(model, dt)``, compiled, with ``dt`` the time of a step: a ``Derived``.
        begin: ``begin(model, derived, state, random, i, price)``, compiled: sets the state of row ``i`` as an episode
            begins at ``price``.
        move: ``move(model, derived, state, random, i, price)``, compiled: the price a step later, f8.
    """

    State: ClassVar[Any]
    Derived: ClassVar[Any]
    is_positive: ClassVar[bool]
    check: ClassVar[Any]
    derive: ClassVar[Any]
    begin: ClassVar[Any]
    move: ClassVar[Any]


class SeveralPricesModel(Protocol):
    """The class of a model of K prices that move together: a ``PriceModel``, but for what begins and moves prices.

    Attributes:
        State: See ``PriceModel``, as of all that come before ``prepare``.
        Derived: See there.
        is_positive: See there.
        check: See there.
        derive: See there.
        prepare: ``prepare(model)``, in plain Python, once per market: ``factors``, a named tuple of arrays.
        count_assets: ``count_assets(model)``, in plain Python: K.
        begin_all: ``begin_all(model, derived, factors, state, random, i, prices)``, compiled: sets the state of row
            ``i`` as an episode begins at ``prices``, f8 (K,).
        move_all: ``move_all`` of the same arguments, compiled: moves the prices by a step, in place.
    """

    State: ClassVar[Any]
    Derived: ClassVar[Any]
    is_positive: ClassVar[bool]
    check: ClassVar[Any]
    derive: ClassVar[Any]
    prepare: ClassVar[Any]
    count_assets: ClassVar[Any]
    begin_all: ClassVar[Any]
    move_all: ClassVar[Any]


#: What the class of a model has, and that of a model of several prices.
MEMBERS, MEMBERS_OF_SEVERAL = tuple(PriceModel.__annotations__), tuple(SeveralPricesModel.__annotations__)
_KERNELS, _PLAIN = {"derive", "begin", "move", "begin_all", "move_all"}, {"check", "prepare", "count_assets"}
#: Of a log return, or the log of a factor: its exponential is finite.
MOST_LOG = 700.0
#: Of a parameter whose square, and its product with any count or time, is to be finite.
MOST = 1e100


def is_model(value: Any) -> bool:
    """Whether something is a price model: a named tuple whose class has what ``PriceModel`` says."""
    return isinstance(value, tuple) and all(hasattr(type(value), member) for member in MEMBERS)


def is_model_of_several(value: Any) -> bool:
    """Whether something is a model of several prices: a named tuple of a class as ``SeveralPricesModel`` says."""
    return isinstance(value, tuple) and all(hasattr(type(value), member) for member in MEMBERS_OF_SEVERAL)


def is_nearly_model(value: Any) -> bool:
    """Whether something can be meant as a price model alone: a named tuple, or the class of one."""
    return hasattr(type(value), "_fields") or (isinstance(value, type) and hasattr(value, "_fields"))


def check_class(name: str, model: Any, *, several: bool = False) -> None:
    """TypeError for what is no price model; see ``check_model``."""
    if isinstance(model, type):
        raise TypeError(f"{name}: expected an instance, {model.__name__}(), got the class")
    is_several = is_model_of_several(model)
    if is_several and not several:
        raise TypeError(
            f"{name}: expected a model of one price, got {type(model).__name__}, which moves several (for Portfolio-v0)"
        )
    if not is_several and not is_model(model):
        missing = [member for member in MEMBERS if not hasattr(type(model), member)]
        raise TypeError(f"{name}: expected a price model (see sims.prices), got {model!r}, without {missing}")
    kind = type(model)
    members = MEMBERS_OF_SEVERAL if is_several else MEMBERS
    for member in (each for each in members if each in _KERNELS | _PLAIN):
        if not isinstance(getattr_static(kind, member), staticmethod):
            raise TypeError(f"{name}: expected {kind.__name__}.{member} to be a staticmethod")
    for member in (each for each in members if each in _KERNELS):
        if not getattr(getattr(kind, member), "is_kernel", False):
            raise TypeError(f"{name}: expected {kind.__name__}.{member} to be compiled by sekai.kernels.jit")
    if not isinstance(kind.is_positive, bool):
        raise TypeError(f"{name}: expected {kind.__name__}.is_positive to be a bool, got {kind.is_positive!r}")


def check_model(
    name: str, model: Any, *, dt: float | None = None, positive: bool = False, several: bool = False
) -> None:
    """Refuse what is no price model, or one with a parameter out of its range.

    What is legal and likely a slip is a UserWarning at the line that called into ``sekai`` or ``sims``.

    Args:
        name: The parameter of the market that the model is, for error messages: "prices".
        model: With the numbers of one sub-env.
        dt: The time of a step; None where it is not known, and what depends on it is not checked.
        positive: Whether the market needs prices that stay above 0.
        several: Whether it takes a model of several prices as well.

    Raises:
        TypeError: It is no model, or a parameter is of another type.
        ValueError: A parameter is out of its range, numbers that follow for a step are not finite, or prices may fall
            below 0 that must not.
    """
    check_class(name, model, several=several)
    if positive and not model.is_positive:
        raise ValueError(f"{name}: expected a model whose prices stay above 0, got {type(model).__name__}")
    try:
        warned = list(model.check(model) or ())
        if dt is not None:
            derived = _derive(model, dt)
            if hasattr(type(model), "check_step"):
                warned += model.check_step(model, derived, dt) or ()
    except TypeError as error:
        raise TypeError(_placed(name, model, str(error))) from None
    except ValueError as error:
        raise ValueError(_placed(name, model, str(error))) from None
    for text in warned:
        warn_caller(_placed(name, model, text))


def _placed(name: str, model: Any, text: str) -> str:
    """A message of a model, with the fields that it begins with at their place in the market."""
    head, colon, rest = text.partition(": ")
    fields = head.split(", ")
    if fields[0] not in model._fields:
        return f"{name}: {text}"
    return ", ".join(f"{name}.{each}" if each in model._fields else each for each in fields) + colon + rest


def _derive(model: Any, dt: float) -> Any:
    """What a model derives from the time of a step, in Python."""
    # NumPy's numbers, which divide by 0 as compiled ones do.
    numbers = {each: np.float64(value) for each, value in model._asdict().items() if isinstance(value, float)}
    derive = getattr(model.derive, "py_func", model.derive)
    try:
        with np.errstate(all="ignore"):
            derived = derive(model._replace(**numbers), np.float64(dt))
        found = {each: float(value) for each, value in derived._asdict().items()}
    except (ArithmeticError, ValueError) as error:  # of the math module, where compiled code goes on with inf or nan
        found = {type(error).__name__: np.inf}
    infinite = [f"{each}={value:g}" for each, value in found.items() if not np.isfinite(value)]
    if infinite:
        expected = f"expected parameters of which finite numbers follow for a step of {dt:g}"
        raise ValueError(f"{expected}, got {', '.join(infinite)} of {model}")
    return derived


def describe_model(model: Any) -> str:
    """A model in a line: its parameters, and of arrays of more than 4 numbers the shapes."""
    told = []
    for name, value in zip(model._fields, model, strict=True):
        is_large = isinstance(value, np.ndarray) and value.size > 4
        told.append(f"{name}=array of shape {value.shape}" if is_large else f"{name}={value!r}".replace("\n", ""))
    return f"{type(model).__name__}({', '.join(told)})"


class ArrayCheck:
    """A check of arrays that all rows share, which is not done again for the arrays it was done for last.

    Args:
        check: Raises for arrays that are none, or do not fit together; one may be None.
    """

    def __init__(self, check: Callable[..., None]) -> None:
        self._check = check
        self._last: tuple[Any, ...] = ()

    def __call__(self, *arrays: Any) -> None:
        """Check arrays, unless they are the last, and nobody can have written to them."""
        if len(self._last) == len(arrays) and all(map(_is_of, self._last, arrays)):
            return
        self._check(*arrays)
        self._last = ()
        if all(each is None or (each.base is None and not each.flags.writeable) for each in map(_as_array, arrays)):
            self._last = tuple(None if each is None else weakref.ref(each) for each in arrays)


def _as_array(value: Any) -> Any:
    return value if value is None or isinstance(value, np.ndarray) else np.empty(0)


def _is_of(reference: Any, array: Any) -> bool:
    return array is None if reference is None else array is not None and reference() is array


@jit
def begin_without_state(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> None:
    """Begin an episode of a model without state: there is nothing to set."""
