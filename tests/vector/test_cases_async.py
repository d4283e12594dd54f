"""Cases 11.x and their kind: event loops, cancellation, Ctrl-C and threads."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from backends import assert_same
from proc_envs import FOR_EVER, HANG
from toys import BOX1, T, Toy, Z, fns

from sekai import (
    AsyncCallPending,
    AsyncVecEnv,
    Discrete,
    Env,
    ResetRequired,
    ResetResult,
    StepResult,
    SyncVecEnv,
    VecEnvClosed,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
    VecWrapper,
)


@pytest.fixture(autouse=True)
def nothing_but_its_own_garbage():
    """In a long run, what other tests have left takes half a second to look through."""
    gc.freeze()
    yield
    gc.unfreeze()


class Slow(Env):
    """Waits in each step, and counts what runs and what has run; observes the episode's number and its step."""

    observation_space, action_space = BOX1, Discrete(2)

    def __init__(self, seconds=0.02, length=100):
        self.seconds, self.length = seconds, length
        self.running = self.overlaps = self.cancelled = self.finished = self.episode = 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.k = self.episode + 1, 0
        return ResetResult(np.array([100.0 * self.episode]), {})

    def step(self, action):
        self.k += 1
        return StepResult(np.array([100.0 * self.episode + self.k]), 1.0, self.k >= self.length, False, {})

    async def async_step(self, action):
        self.overlaps += self.running
        self.running += 1
        try:
            await self.wait()
            self.finished += 1
            return self.step(action)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def wait(self):
        await asyncio.sleep(self.seconds)

    async def async_reset(self, *, seed=None, options=None):
        self.overlaps += self.running
        self.running += 1
        try:
            await asyncio.sleep(self.seconds)
            return self.reset(seed=seed, options=options)
        finally:
            self.running -= 1


WRAPPERS = {
    "bare": lambda v: v,
    "wrapped": VecWrapper,
    "deep": lambda v: VecNormalizeObservation(VecRecordEpisodeStatistics(v)),
}
bare_and_wrapped = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


# -- 11.1 --------------------------------------------------------------------------------------------------


@bare_and_wrapped
def test_11_1_a_sync_call_inside_a_running_loop_names_the_way_out(wrap):
    with wrap(AsyncVecEnv(fns(T(3), T(3)))) as v:

        async def main():
            with pytest.raises(RuntimeError, match="async_reset"):
                v.reset()
            await v.async_reset()
            with pytest.raises(RuntimeError, match="async_step"):
                v.step([0, 0])
            return await v.async_step([0, 0])

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            r = asyncio.run(main())
            gc.collect()
        assert len(r.rewards) == 2
        assert v.get_attr("n_step") == [1, 1]


@bare_and_wrapped
def test_11_1_the_private_loop_and_another_may_alternate(wrap):
    with wrap(AsyncVecEnv([Slow, Slow])) as v:
        v.reset()

        async def main():
            await v.async_step([0, 0])

        for _ in range(2):
            asyncio.run(main())
            v.step([0, 0])
        assert v.get_attr("k") == [4, 4]


def test_11_1_sub_envs_run_concurrently():
    together = []

    class Meets(Slow):
        async def wait(self):
            together.append(self)
            for _ in range(100):  # turns of the loop, in any of which the others may come
                if len(together) == 8:
                    return
                await asyncio.sleep(0)
            raise AssertionError("nobody came")

    with AsyncVecEnv([lambda: Meets(0.0)] * 8) as v:
        v.reset()
        v.step(Z(v))


# -- 11.3 --------------------------------------------------------------------------------------------------


async def until_running(v, expected):
    """Let the loop take turns until so many calls run in each sub-env."""
    for _ in range(100):
        if v.get_attr("running") == expected:
            return
        await asyncio.sleep(0)
    raise AssertionError(v.get_attr("running"))


async def give_up(v, call):
    """A call in which sub-env 0 would never be done, given up when all others are."""
    others = [0] * (v.num_envs - 1)
    v.set_attr("seconds", [FOR_EVER, *others])
    task = asyncio.ensure_future(call)
    await until_running(v, [1, *others])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    v.set_attr("seconds", 0.0)


def test_11_3_a_cancelled_step_leaves_no_stale_data():
    with AsyncVecEnv([lambda: Slow(0.0)] * 2) as v:

        async def main():
            await v.async_reset()
            await give_up(v, v.async_step([0, 0]))
            assert v.get_attr("running") == [0, 0]  # nothing runs on behind the next call
            first = await v.async_reset()
            assert first.observations.tolist() == [[200.0], [200.0]]
            return await v.async_step([0, 0])

        r = asyncio.run(main())
        assert r.observations.tolist() == [[201.0], [201.0]]
        assert v.get_attr("cancelled") == [1, 0]
        assert v.get_attr("overlaps") == [0, 0]


def test_11_3_a_cancelled_reset_asks_for_another():
    with AsyncVecEnv([lambda: Slow(0.0)] * 2) as v:

        async def main():
            await v.async_reset()
            await give_up(v, v.async_reset())
            with pytest.raises(ResetRequired):
                await v.async_step([0, 0])
            await v.async_reset()
            return await v.async_step([0, 0])

        assert asyncio.run(main()).observations.tolist() == [[201.0], [301.0]]


class SlowRestart(Slow):
    async def async_step(self, action):
        return self.step(action)


def test_11_3_cancelled_between_two_episodes():
    with AsyncVecEnv([lambda: SlowRestart(0.0, length=1), lambda: SlowRestart(0.0, length=9)]) as v:

        async def main():
            await v.async_reset()
            await give_up(v, v.async_step([0, 0]))
            with pytest.raises(ResetRequired, match="sub-env 0"):
                await v.async_step([0, 0])  # not stepped on past its end
            await v.async_reset()
            return await v.async_step([0, 0])

        r = asyncio.run(main())
        assert r.infos[0]["final_observation"].tolist() == [201.0]


@bare_and_wrapped
def test_11_3_overlapping_calls(wrap):
    with wrap(AsyncVecEnv([Slow, Slow])) as v:

        async def main():
            await v.async_reset()
            calls = [v.async_step([0, 0]), v.async_step([0, 0]), v.async_reset(), v.async_step([1, 1])]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in outcomes[1:]] == [AsyncCallPending] * 3
            assert v.get_attr("k") == [1, 1]
            task = asyncio.ensure_future(v.async_step([0, 0]))
            await asyncio.sleep(0)
            with pytest.raises(AsyncCallPending, match="step"):
                v.close()
            await task
            await v.async_step([0, 0])

        asyncio.run(main())
        assert v.get_attr("k") == [3, 3]
        assert v.get_attr("overlaps") == [0, 0]


def test_11_3_nothing_is_pending_after_a_refused_call():
    with AsyncVecEnv([Slow, Slow]) as v:

        async def main():
            with pytest.raises(ResetRequired):
                await v.async_step([0, 0])
            await v.async_reset()
            with pytest.raises(ValueError, match="actions"):
                await v.async_step([0])
            with pytest.raises(ValueError, match="seed"):
                await v.async_reset(seed=-1)
            await v.async_step([0, 0])

        asyncio.run(main())


class Raises(Slow):
    async def async_step(self, action):
        await super().async_step(action)
        raise ValueError(f"after {self.seconds}")


def test_11_3_a_call_waits_for_all_when_one_raises():
    with AsyncVecEnv([lambda: Slow(0.02), lambda: Raises(0.01), lambda: Raises(0.0)]) as v:
        v.reset()
        with pytest.raises(ValueError, match="after 0.01"):  # the first in the order of the sub-envs
            v.step([0] * 3)
        assert v.get_attr("running") == [0, 0, 0]
        assert v.get_attr("finished") == [1, 1, 1]
        v.reset()


def test_11_3_a_loop_that_was_given_up_does_not_block_the_next():
    with AsyncVecEnv([lambda: Slow(0.0)]) as v:
        v.reset()
        v.set_attr("seconds", FOR_EVER)
        loop = asyncio.new_event_loop()
        task = loop.create_task(v.async_step([0]))
        loop.run_until_complete(until_running(v, [1]))
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()
        v.set_attr("seconds", 0.0)
        assert v.reset().observations.tolist() == [[200.0]]


class Stubborn(Slow):
    """Takes its time to wind up when it is cancelled."""

    async def async_step(self, action):
        try:
            return await super().async_step(action)
        except asyncio.CancelledError:
            self.running += 1
            try:
                await self.wind_up()
            finally:
                self.running -= 1
            raise

    async def wind_up(self):
        await asyncio.sleep(0.02)


def test_11_3_a_sub_env_that_winds_up_slowly_is_waited_for():
    with AsyncVecEnv([lambda: Stubborn(0.0), lambda: Slow(0.0)]) as v:

        async def main():
            await v.async_reset()
            await give_up(v, v.async_step([0, 0]))
            return await v.async_reset()

        assert asyncio.run(main()).observations.tolist() == [[200.0], [200.0]]
        assert v.get_attr("overlaps") == [0, 0]


# -- Ctrl-C ------------------------------------------------------------------------------------------------


class Interrupted(Slow):
    """Its second step is interrupted: in the sub-env itself, or while it waits."""

    def __init__(self, error, waiting):
        super().__init__(0.0)
        self.error, self.waiting = error, waiting

    def step(self, action):
        if self.episode == 1 and self.k == 1:
            self.k += 1
            raise self.error
        return super().step(action)

    async def async_step(self, action):
        return await super().async_step(action) if self.waiting else self.step(action)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("waiting", [True, False], ids=["waiting", "at_once"])
@pytest.mark.parametrize("others", [0, 2])
@bare_and_wrapped
def test_9_6_an_interrupt_in_a_step_cancels_it_and_a_reset_starts_afresh(error, waiting, others, wrap, recwarn):
    with wrap(AsyncVecEnv([lambda: Interrupted(error, waiting), *[lambda: Slow(0.0)] * others])) as v:
        n = 1 + others
        v.reset()
        v.step([0] * n)
        v.set_attr("seconds", [0.0] + [FOR_EVER] * others)
        with pytest.raises(error):
            v.step([0] * n)
        assert v.get_attr("running") == [0] * n
        assert v.get_attr("cancelled") == [0] + [int(waiting)] * others  # if not, they had not begun
        v.set_attr("seconds", 0.0)
        raw = v.unwrapped
        assert raw.reset().observations[:, 0].tolist() == [200.0] * n
        assert raw.step([0] * n).observations[:, 0].tolist() == [201.0] * n
        assert v.get_attr("overlaps") == [0] * n
    gc.collect()
    assert not [str(each.message) for each in recwarn]


def test_9_6_a_signal_while_the_loop_waits(caplog):
    class Pressed(Slow):
        async def async_step(self, action):
            if self.episode == 1:
                asyncio.get_running_loop().call_later(0.01, press_ctrl_c)
            return await super().async_step(action)

    with AsyncVecEnv([lambda: Pressed(0.0), lambda: Slow(0.0)]) as v:
        v.reset()
        v.set_attr("seconds", FOR_EVER)
        with pytest.raises(KeyboardInterrupt):
            v.step([0, 0])
        assert v.get_attr("cancelled") == [1, 1]
        v.set_attr("seconds", 0.0)
        assert v.reset().observations.tolist() == [[200.0], [200.0]]
        assert v.step([0, 0]).observations.tolist() == [[201.0], [201.0]]
    gc.collect()
    assert caplog.records == []


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


class PressedTwice(Stubborn):
    """Ctrl-C comes in its first step, and again while it winds up."""

    async def async_step(self, action):
        if self.episode == 1:
            asyncio.get_running_loop().call_later(0.01, press_ctrl_c)
        return await super().async_step(action)

    async def wind_up(self):
        asyncio.get_running_loop().call_soon(press_ctrl_c)
        await super().wind_up()


def test_9_6_ctrl_c_twice_in_a_row_and_the_sub_envs_are_closed(caplog, recwarn):
    closed = []
    PressedTwice.close = lambda self: closed.append(self)
    with pytest.raises(KeyboardInterrupt), AsyncVecEnv([lambda: PressedTwice(0.0)]) as v:
        v.reset()
        v.set_attr("seconds", FOR_EVER)
        v.step([0])
    assert len(closed) == 1
    del v
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


def test_9_6_ctrl_c_twice_in_a_row_and_a_reset_starts_afresh(caplog, recwarn):
    with AsyncVecEnv([lambda: PressedTwice(0.0), lambda: Slow(0.0)]) as v:
        v.reset()
        v.set_attr("seconds", [FOR_EVER, 0.0])
        with pytest.raises(KeyboardInterrupt):
            v.step([0, 0])
        assert v.get_attr("running") == [0, 0]
        v.set_attr("seconds", 0.0)
        assert v.reset().observations.tolist() == [[200.0], [200.0]]
        assert v.step([0, 0]).observations.tolist() == [[201.0], [201.0]]
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


def press_at(line, modules):
    """A tracer that presses Ctrl-C when so many lines of some modules have been run, and says so in a list."""
    left, pressed = line, []

    def trace(frame, event, argument):
        nonlocal left
        if event == "line" and frame.f_globals.get("__name__") in modules:
            left -= 1
            if left < 0 and not pressed:
                pressed.append(frame)
                press_ctrl_c()
        return trace

    return trace, pressed


INTERRUPTED = {
    *(f"asyncio.{name}" for name in ("base_events", "events", "futures", "selector_events", "tasks")),
    *("selectors", "sekai.vector.interrupts", "sekai.vector.sub_envs.sub_env"),
}


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("raises", [True, False], ids=["raises", "counts"])
def test_a16_ctrl_c_at_any_line_of_the_event_loop_leaves_it_usable(raises, every, caplog, recwarn):
    counted = []
    before, tracer = signal.getsignal(signal.SIGINT), sys.gettrace()
    if not raises:
        signal.signal(signal.SIGINT, lambda *press: counted.append(press))
    handler = signal.getsignal(signal.SIGINT)
    line, pressed, interrupted = 0, [True], 0
    try:
        with AsyncVecEnv([lambda: Slow(0.0), lambda: Slow(0.0)]) as v:
            while pressed:
                v.reset()
                v.step([0, 0])
                trace, pressed = press_at(line, INTERRUPTED)
                sys.settrace(trace)
                try:
                    v.step([1, 1])
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    sys.settrace(tracer)
                line += every
                assert v.get_attr("running") == [0, 0]
                assert signal.getsignal(signal.SIGINT) is handler
            presses = line // every - 1
            assert (interrupted, len(counted)) == ((presses, 0) if raises else (0, presses))
            assert line > 200
            assert v.get_attr("overlaps") == [0, 0]
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


# -- threads -----------------------------------------------------------------------------------------------


def in_threads(*calls):
    """What each call returned or raised, all having begun together."""
    outcomes = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def target(i):
        barrier.wait()
        try:
            outcomes[i] = calls[i]()
        except BaseException as error:
            outcomes[i] = error

    threads = [threading.Thread(target=target, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()
    return outcomes


class Held(Slow):
    """Its steps wait until they are let go."""

    def __init__(self, events):
        super().__init__(0.0)
        self.begun, self.let_go = events

    async def wait(self):
        self.begun.set()
        while not self.let_go.is_set():
            await asyncio.sleep(0.001)


@contextmanager
def under_way(call, events):
    """A call in a thread of its own, which does not end before the block does; yields where its outcome will be."""
    begun, let_go = events
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(call()))
    thread.start()
    try:
        assert begun.wait(HANG)
        yield outcomes
        assert outcomes == []
    finally:
        let_go.set()
        thread.join(HANG)
    assert not thread.is_alive()


@pytest.fixture
def events():
    return threading.Event(), threading.Event()


def test_11_3_overlapping_calls_from_threads(events, recwarn, caplog):
    with AsyncVecEnv([lambda: Held(events)] * 2) as v:
        v.reset()
        with under_way(lambda: v.step([0, 0]), events) as outcomes:
            refused = in_threads(*[lambda: v.step([0, 0])] * 3)
            assert [type(each) for each in refused] == [AsyncCallPending] * 3
        assert outcomes[0].observations.tolist() == [[101.0], [101.0]]
        assert v.step([0, 0]).observations.tolist() == [[102.0], [102.0]]
        assert v.get_attr("overlaps") == [0, 0]
    gc.collect()
    assert not [str(each.message) for each in recwarn]
    assert caplog.records == []


def test_11_3_calls_that_begin_together_in_threads(recwarn, caplog):
    with AsyncVecEnv([lambda: Slow(0.001)] * 2) as v:
        v.reset()
        outcomes = in_threads(*[lambda: v.step([0, 0])] * 4)
        done = [each for each in outcomes if not isinstance(each, AsyncCallPending)]
        # Those that are not refused come one after the other.
        assert done and sorted(each.observations[0, 0] for each in done) == [101.0 + k for k in range(len(done))]
        assert v.step([0, 0]).observations.tolist() == [[101.0 + len(done)]] * 2
        assert v.get_attr("overlaps") == [0, 0]
    gc.collect()
    assert not [str(each.message) for each in recwarn]
    assert caplog.records == []


@pytest.mark.parametrize("loop", [True, False])
def test_11_3_a_loop_in_one_thread_and_a_step_in_another(loop, events, recwarn, caplog):
    with AsyncVecEnv([lambda: Held(events)] * 2) as v:
        v.reset()

        def step_in_a_loop():
            return asyncio.run(v.async_step([0, 0]))

        with under_way(step_in_a_loop if loop else lambda: v.step([0, 0]), events) as outcomes:
            refused = in_threads(step_in_a_loop, lambda: v.step([0, 0]), lambda: v.reset())
            assert [type(each) for each in refused] == [AsyncCallPending] * 3
        assert outcomes[0].observations.tolist() == [[101.0], [101.0]]
        assert v.get_attr("overlaps") == [0, 0]
    gc.collect()
    assert not [str(each.message) for each in recwarn]
    assert caplog.records == []


def test_11_3_close_from_another_thread_during_a_step(events):
    with AsyncVecEnv([lambda: Held(events)]) as v:
        v.reset()
        with under_way(lambda: v.step([0]), events) as outcomes, pytest.raises(AsyncCallPending):
            v.close()
        assert outcomes[0].observations.tolist() == [[101.0]]
        v.step([0])


def test_11_3_one_after_the_other_from_several_threads():
    with AsyncVecEnv([lambda: Slow(0.0)]) as v:
        v.reset()
        for k in range(1, 5):
            (r,) = in_threads(lambda: v.step([0]))
            assert r.observations.tolist() == [[100.0 + k]]


# -- close -------------------------------------------------------------------------------------------------


class Shuts(Held):
    """Says whether it was closed."""

    closed = 0

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), None], ids=repr)
@bare_and_wrapped
def test_a17_leaving_a_with_block_cancels_the_step_of_another_task(wrap, error, events, caplog, recwarn):
    tasks, envs = [], []

    async def main():
        with wrap(AsyncVecEnv([lambda: Shuts(events)] * 2)) as v:
            envs.extend(v.unwrapped.envs)
            await v.async_reset()
            tasks.append(asyncio.ensure_future(v.async_step([0, 0])))
            await until_running(v, [1, 1])
            if error is not None:
                raise error

    async def run():
        try:
            await main()
        finally:
            assert [env.closed for env in envs] == [1, 1]
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
            assert [(env.running, env.cancelled, env.k) for env in envs] == [(0, 1, 0)] * 2

    if error is None:
        asyncio.run(run())
    else:
        with pytest.raises(type(error)) as caught:
            asyncio.run(run())
        assert caught.value is error or isinstance(error, KeyboardInterrupt)
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


@pytest.mark.parametrize("awaited", [True, False], ids=["in_a_loop", "sync"])
@bare_and_wrapped
def test_a17_leaving_a_with_block_waits_for_the_step_of_another_thread(wrap, awaited, events, caplog, recwarn):
    outcomes = []
    with pytest.raises(ValueError, match="mine"), wrap(AsyncVecEnv([lambda: Shuts(events)] * 2)) as v:
        envs = v.unwrapped.envs
        v.reset()

        def step():
            try:
                asyncio.run(v.async_step([0, 0])) if awaited else v.step([0, 0])
            except asyncio.CancelledError:
                outcomes.append([(env.running, env.cancelled, env.closed) for env in envs])

        thread = threading.Thread(target=step)
        thread.start()
        assert events[0].wait(HANG)
        raise ValueError("mine")
    thread.join(HANG)
    assert [env.closed for env in envs] == [1, 1]
    assert [(running, cancelled) for running, cancelled, _ in outcomes[0]] == [(0, 1)] * 2
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


def test_a17_leaving_a_with_block_whose_loop_has_stopped(events):
    loop = asyncio.new_event_loop()
    with pytest.raises(ValueError, match="mine"), AsyncVecEnv([lambda: Shuts(events)]) as v:
        (env,) = v.envs
        v.reset()
        task = loop.create_task(v.async_step([0]))
        loop.run_until_complete(until_running(v, [1]))
        raise ValueError("mine")
    assert env.closed == 1
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    assert env.cancelled == 1
    loop.close()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))], ids=["deepcopy", "pickle"])
@bare_and_wrapped
def test_a9_a_copy_has_the_sub_envs_and_a_loop_of_its_own(wrap, copied):
    with wrap(AsyncVecEnv([partial(Slow, 0.0, 3), partial(Slow, 0.0, 4)])) as v:
        copies = [copied(v)]  # before it has a loop
        v.reset()
        v.step([0, 0])
        copies.append(copied(v))
        with pytest.raises(ResetRequired):
            copies[0].step([0, 0])
        copies[0].reset()
        copies[0].step([0, 0])
        expected = v.step([1, 0])
        for each in copies:
            with each:
                assert each.unwrapped.envs[0] is not v.unwrapped.envs[0]
                assert_same(expected, asyncio.run(each.async_step([1, 0])))
                each.step([0, 0])
        assert v.get_attr("k") == [2, 2]


def test_a9_no_copy_in_the_middle_of_a_step(events):
    with AsyncVecEnv([lambda: Held(events)]) as v:
        v.reset()
        with under_way(lambda: v.step([0]), events), pytest.raises(AsyncCallPending, match="step"):
            copy.deepcopy(v)


def test_close_inside_a_running_loop_and_use_after_it():
    v = AsyncVecEnv([Slow])

    async def main():
        await v.async_reset()
        v.close()
        with pytest.raises(VecEnvClosed):
            await v.async_step([0])
        with pytest.raises(VecEnvClosed):
            await v.async_reset()

    asyncio.run(main())
    with pytest.raises(VecEnvClosed):
        v.step([0])


def test_close_that_fails_closes_the_private_loop_too(recwarn):
    class Stuck(Toy):
        def close(self):
            raise RuntimeError("stuck")

    v = AsyncVecEnv([lambda: Stuck(T(3))])
    v.reset()
    with pytest.raises(RuntimeError, match="stuck"):
        v.close()
    del v
    gc.collect()
    assert not [str(each.message) for each in recwarn]


class Feed(Slow):
    """Keeps a task running in the background, as a market data feed does; its close() asks it to end."""

    def __init__(self):
        super().__init__(0.0)
        self.task, self.ended = None, False

    async def listen(self):
        try:
            while True:
                await asyncio.sleep(0.001)
        finally:
            self.ended = True

    async def async_reset(self, *, seed=None, options=None):
        if self.task is None:
            self.task = asyncio.ensure_future(self.listen())
        return await super().async_reset(seed=seed, options=options)

    def close(self):
        if self.task is not None:
            self.task.cancel()


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside_a_running_loop"])
def test_close_lets_what_runs_on_the_private_loop_wind_up(inside, caplog, recwarn):
    v = AsyncVecEnv([Feed, Feed])
    v.reset()
    v.step([0, 0])

    async def close(vec):
        vec.close()

    if inside:
        asyncio.run(close(v))
    else:
        v.close()
    assert [env.ended for env in v.envs] == [True, True]
    del v
    gc.collect()
    assert caplog.records == []
    assert not [str(each.message) for each in recwarn]


def test_one_that_is_dropped_unclosed_warns_of_nothing(recwarn):
    v = AsyncVecEnv([Slow])
    v.reset()
    del v
    gc.collect()
    assert not [str(each.message) for each in recwarn]


def test_async_and_sync_backends_agree_step_by_step():
    with (
        AsyncVecEnv([lambda: Slow(0.0, 3), lambda: Slow(0.0, 4)]) as a,
        SyncVecEnv([lambda: Slow(0, 3), lambda: Slow(0, 4)]) as b,
    ):
        assert_same(b.reset(), a.reset())
        for _ in range(9):
            assert_same(b.step([0, 0]), a.step([0, 0]))
