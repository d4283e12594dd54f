"""Whether a snapshot of a VecEnv would miss anything: a copy of it is stepped, and looked at."""

from __future__ import annotations

import copy
from typing import Any

from sekai.snapshots.agreement import differing, is_same
from sekai.snapshots.attributes import is_of_kit

#: Steps at most in which a copy shows what of a VecEnv's attributes is state.
_EXAMINED_STEPS = 64


def examine(vec: Any) -> None:
    """Reset a copy of a VecEnv and step it some times, once, and look what of its subclass's attributes that alters.

    Classes of the kit say themselves what their state is; its wrappers are left out of the copy.

    Raises:
        TypeError: An attribute is altered that a snapshot takes to stay as it is; the message names it.
    """
    vec._is_examined = True
    layers = [each for each in vec._snapshot_layers if not is_of_kit(each.__class__)]
    layers = [each for each in layers if each._snapshot_others() or each._snapshot_arrays()]
    inner = vec._snapshot_layers[0]
    if not layers or not inner._has_numbers_alone:
        return
    try:
        twin = copy.deepcopy(inner)
        twins = {id(inner): twin}
        for layer in layers:
            if layer is not inner:
                alone = {name: value for name, value in vars(layer).items() if name != "venv"}
                another = object.__new__(type(layer))
                another.__dict__.update(copy.deepcopy(alone), venv=twin)
                twin = twins[id(layer)] = another
    except Exception as error:
        vec._is_examined = False
        raise TypeError(f"snapshot(): {vec!r}: expected attributes that can be copied, got {error}") from error
    began = {number: each._snapshot_others() for number, each in twins.items()}
    arrays = {number: copy.deepcopy(each._snapshot_arrays()) for number, each in twins.items()}
    actions = copy.deepcopy(twin.batch_action_space)
    actions.seed(0)
    untouched = {(number, name) for number, found in arrays.items() for name in found}

    def still_untouched() -> set[tuple[int, str]]:
        live = {number: each._snapshot_arrays() for number, each in twins.items()}
        return {
            (number, name)
            for number, name in untouched
            if name in live[number] and is_same(live[number][name], arrays[number][name])
        }

    twin.reset(seed=0)
    untouched = still_untouched()  # the step from these seeds may be the one that has led to where the VecEnv is
    for step in range(_EXAMINED_STEPS):
        if step >= 2:
            if not untouched:
                break
            if twin.frozen.all():  # and would stay so
                twin.reset()
        twin.step(actions.sample())
        untouched = still_untouched()
    for layer in layers:
        number = id(layer)
        layer._untouched = frozenset(name for each, name in untouched if each == number)
        twin = twins[number]
        for name in differing(began[number], twin._snapshot_others()):
            vec._is_examined = False
            raise TypeError(
                f"snapshot(): {type(layer).__name__}.{name}: expected state in arrays with a first axis of "
                f"num_envs, got another attribute that a step or a reset alters; write _snapshot_rows() and "
                f"_restore_rows(), or name it in snapshot_ignores if nothing depends on it"
            )
