"""``rollout``: run a policy in a vector environment and keep every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

from sekai.batching.inputs import check_actions
from sekai.checks import check_count
from sekai.progress import progress_bar
from sekai.rollouts.compiled import as_row_policy, can_roll, fill_compiled
from sekai.rollouts.info_column import InfoColumn
from sekai.rollouts.record import Rollout
from sekai.rollouts.storage import Storage
from sekai.snapshots import Snapshot
from sekai.types import SeedType
from sekai.vector import KernelVecEnv, VecEnv


def rollout(
    vec: VecEnv[Any, Any],
    policy: Callable[[Any], Any],
    num_steps: int,
    *,
    seed: list[SeedType] | SeedType = None,
    options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    start: Snapshot | None = None,
    infos: Iterable[str] = (),
    progress: bool = True,
    out: Rollout | None = None,
) -> Rollout:
    """Reset a vector environment, let a policy act in it for some steps, and keep every step.

    With ``start`` it goes on from a snapshot instead: with a batch of futures, say, from one state.

    The memory for all steps is allocated once, at the beginning. The environment is left open, as the last step left
    it. Whatever it or the policy raises goes through, and so does Ctrl-C; what stopped in the middle of compiled steps
    has to be reset.

    An info column holds what each step told. It has the shape and dtype that ``stack_infos`` gives for a step, or, of
    a native environment, that of its own column; numbers of later steps promote it, and strings make it longer.
    Where a sub-env's info lacks the key in a step, as that of a frozen sub-env does, the column holds NaN (integers
    and bools become float64 then) or NaT, and None in a column of anything else. Ragged, nested and mixed values make
    a column of objects, (T, N).

    An environment whose sub-envs are all somewhere on one history may say so in an attribute ``history_clock``: the key
    of an info that is an integer, where on it a step has led to, one further in each step. That is kept as the
    rollout's ``history``, from which the errors of means over its episodes follow. Where sub-envs name no key or
    different ones, or a step lacks the info, there is no history. Which history it is, nobody can see: sub-envs that
    run along several of them (a ``SyncVecEnv`` of two files, say) but name one key are taken to be on one, where equal
    clocks are the same time; let them name different keys if they are not.

    Args:
        vec: Any VecEnv, wrapped or not.
        policy: Takes a batch of observations, arrays (N, *obs_shape) nested like the observation space, and returns a
            batch of actions, arrays (N, *act_shape) nested like the action space. It may write into what it is given.
            Or a policy of one row: a function made by ``sekai.kernels.jit`` that reads an observation, which it cannot
            write into, and writes an action, both flattened, ``policy(observation, action)``; or an object whose
            ``row_policy()`` gives such a function of ``(parameters, observation, action)`` and those parameters. With
            one of rows, a market made of row functions is rolled out in one compiled loop, with the same
            numbers.
        num_steps: The number T of steps of the whole vector.
        seed: Of the reset that begins it, as ``vec.reset()`` takes it.
        options: Of that reset, likewise.
        start: Instead of a reset, what ``vec.restore()`` is given: a snapshot of as many sub-envs, or of one for all.
            Their streams of random numbers go on; of one for all that is one stream, and with the same actions the same
            future, so that for futures that part ``vec.reseed()`` comes before the snapshot. What is seen first is what
            the restored sub-envs show, though otherwise where wrappers have statistics, which a snapshot of a part
            leaves alone. The first episode of each is what is left of the one that it was in (see
            ``Rollout.continued``).
        infos: The keys of the infos to keep, e.g. ``("mid_price", "inventory")``.
        progress: Draw a progress bar, if stderr is a terminal and tqdm is installed.
        out: An earlier rollout of as many steps of this env, whose memory is written over, and which is not to be
            read any more: with compiled steps, to get as much fresh memory takes a fifth of the time.

    Returns:
        A record of arrays with time first, (T, N, ...).

    Raises:
        TypeError: ``vec`` is no VecEnv, ``policy`` not callable, ``num_steps`` no integer, ``infos`` no keys, or
            ``out`` no Rollout; or ``start`` no Snapshot.
        ValueError: ``num_steps`` is below 1; ``start`` is given with a seed or options, which only a reset takes, or
            does not fit ``vec`` (see ``VecEnv.restore``); ``out`` is of another number of steps or sub-envs, or of
            other spaces; or the number, shape or dtype of the actions is wrong.
        KeyError: No sub-env's info has one of the keys in the first step.
        InvalidAction: In a compiled rollout, the policy gave an action that the market refuses.
        InvalidObservation: A batch of observations has another shape or dtype than the first, or autoreset is on and
            the step that ended an episode gave no terminal observation.
        NotImplementedError: ``start`` is given, and ``vec`` has no snapshots, or a layer of it, which is named, does
            not say what is seen between two steps: a wrapper with a ``reset()`` of its own, or a native env that draws
            random numbers to observe.

    Examples:
        >>> record = sekai.rollout(vec, policy, 1000, seed=0, infos=("wealth",))
        >>> record.episode_returns.mean(), record.infos["wealth"][-1]
        >>> vec.restore(vec.snapshot(0))
        >>> vec.reseed(7)
        >>> futures = sekai.rollout(vec, policy, 100, start=vec.snapshot(), infos=("wealth",))
    """
    storage, last_observations = fill_storage(
        vec, policy, num_steps, seed=seed, options=options, start=start, infos=infos, progress=progress, out=out
    )
    return storage.rollout(last_observations)


def fill_storage(
    vec: VecEnv[Any, Any],
    policy: Callable[[Any], Any],
    num_steps: int,
    *,
    seed: Any = None,
    options: Any = None,
    start: Snapshot | None = None,
    infos: Iterable[str] = (),
    progress: bool = False,
    out: Rollout | None = None,
    column: type[InfoColumn] = InfoColumn,
) -> tuple[Storage, Any]:
    """Do what ``rollout`` does, whose arguments these are; what is filled, and the observations after the last step.

    Infos are taken in by ``column``.
    """
    if not isinstance(vec, VecEnv):
        raise TypeError(f"rollout(vec): expected a VecEnv, got {type(vec).__name__}")
    row_policy = as_row_policy(policy, vec)
    if row_policy is None and not callable(policy):
        raise TypeError(f"rollout(policy): expected a callable or a policy of rows, got {type(policy).__name__}")
    num_steps = check_count(num_steps, "rollout(num_steps)")
    keys = check_keys(infos)
    if not isinstance(out, (Rollout, NoneType)):
        raise TypeError(f"rollout(out=...): expected a Rollout or None, got {type(out).__name__}")
    if start is None:
        observations, continued = vec.reset(seed=seed, options=options).observations, None
    else:
        observations = _go_on(vec, start, seed, options)
        continued = ~vec.frozen
    storage = Storage(vec, observations, num_steps, keys, out, history_clock(vec), continued, column)
    with progress_bar(num_steps, "step", wanted=progress) as advance:
        if row_policy is not None and isinstance(vec, KernelVecEnv) and can_roll(vec, row_policy, storage.columns):
            last_observations = fill_compiled(storage, vec, row_policy, observations, advance)
        else:
            last_observations = fill(storage, vec, row_policy or policy, observations, advance)
    return storage, last_observations


def _go_on(vec: VecEnv[Any, Any], start: Any, seed: Any, options: Any) -> Any:
    """Restore a snapshot; the first observations."""
    if not isinstance(start, Snapshot):
        raise TypeError(f"rollout(start=...): expected a Snapshot or None, got {start!r}")
    for name, given in (("seed", seed), ("options", options)):
        if given is not None:
            raise ValueError(f"rollout({name}=...): expected None with start=, which makes no reset, got {given!r}")
    vec.restore(start)
    return vec._observe_now()


def fill(
    storage: Storage,
    vec: VecEnv[Any, Any],
    policy: Callable[[Any], Any],
    observations: Any,
    advance: Callable[[int], Any],
) -> Any:
    """Fill the storage step by step, from the first observations on; returns those after the last step."""
    for step in range(storage.num_steps):
        storage.write_observations(step, observations)
        actions = check_actions(vec.action_space, vec.num_envs, policy(observations))
        storage.write_actions(step, actions)
        frozen = None if vec.autoreset else vec.frozen
        result = vec.step(actions)
        storage.write_result(step, result, frozen)
        observations = result.observations
        advance(1)
    return observations


def history_clock(vec: VecEnv[Any, Any]) -> str | None:
    """The key of the info by which all sub-envs say where on one history they are; None where they name no one key."""
    try:
        clock, *others = vec.get_attr("history_clock")
    except AttributeError:
        return None
    return clock if isinstance(clock, str) and all(other == clock for other in others) else None


def check_keys(infos: Iterable[str]) -> list[str]:
    """The keys as a list; TypeError for anything else, a single string too."""
    if not isinstance(infos, str) and isinstance(infos, Iterable):
        keys = list(infos)
        if all(isinstance(key, str) for key in keys):
            return keys
    raise TypeError(f"rollout(infos=...): expected a sequence of keys, got {infos!r}")
