"""Parts of any class: a field of Params takes whichever named tuple an env is given, with its functions and columns."""

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import sekai
from sekai import Box, Discrete
from sekai.kernels import jit, streams
from sekai.vector import KernelVecEnv, NoPart, Randomized, part_of

N = 3
STAY = np.zeros(N, dtype=np.int64)

# -- two parts, of which one keeps something -------------------------------------------------------------------


class Scale(NamedTuple):
    scale: np.float64


class Nothing(NamedTuple):
    """No columns."""


@jit
def derive_walk(model, dt):
    return Scale(model.sigma * dt)


@jit
def begin_walk(model, state, i):
    pass


@jit
def move_walk(model, derived, state, random, i, price):
    return price + derived.scale * streams.normal(random, i)


class Walk(NamedTuple):
    sigma: float = 1.0

    State, Derived = Nothing, Scale
    floor = None
    derive, begin, move = staticmethod(derive_walk), staticmethod(begin_walk), staticmethod(move_walk)


class Count(NamedTuple):
    moves: np.int64


class Pace(NamedTuple):
    pace: np.float64
    half: np.float64


@jit
def derive_climb(model, dt):
    return Pace(model.pace * dt, 0.5 * model.pace * dt)


@jit
def begin_climb(model, state, i):
    state.moves[i] = model.begun


@jit
def move_climb(model, derived, state, random, i, price):
    state.moves[i] += 1
    return price + (derived.half if state.moves[i] % 2 else derived.pace)


class Climb(NamedTuple):
    pace: float = 4.0
    begun: int = 0

    State, Derived = Count, Pace
    floor = 2.5
    derive, begin, move = staticmethod(derive_climb), staticmethod(begin_climb), staticmethod(move_climb)


# -- a market that takes either, or a word ---------------------------------------------------------------------


class Params(NamedTuple):
    prices: str | tuple = "flat"
    dt: float = 0.5


class State(NamedTuple):
    price: np.float64
    path: part_of("prices", "State")


class Derived(NamedTuple):
    rates: part_of("prices", "Derived")
    double: np.float64


@jit
def derive_row(params) -> Derived:
    if params.prices == "flat":
        return Derived(NoPart(), 2.0 * params.dt)
    return Derived(params.prices.derive(params.prices, params.dt), 2.0 * params.dt)


@jit
def reset_row(params, state, i):
    state.price[i] = 1.0
    if params.prices != "flat":
        params.prices.begin(params.prices, state.path, i)


@jit
def step_row(params, derived, state, random, i):
    price = state.price[i]
    if params.prices != "flat":
        price = params.prices.move(params.prices, derived.rates, state.path, random, i, price)
        if params.prices.floor is not None:
            price = max(price, params.prices.floor)
    state.price[i] = price
    return derived.double, False, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.price[i]


def infos(params):
    return ("price", "path.moves") if not isinstance(params.prices, str) and params.prices.floor else ("price",)


class Market(KernelVecEnv):
    Params, State = Params, State
    derive_row, reset_row, step_row, observe_row = derive_row, reset_row, step_row, observe_row
    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)
    infos = infos


def prices_of(vec, steps):
    return [vec.step(STAY).observations[:, 0].tolist() for _ in range(steps)]


def test_a_market_takes_a_part_of_whichever_class():
    walk = Market(N, prices=Walk(sigma=3.0))
    walk.reset(seed=[4, 5, 6])
    random, prices = streams.make_streams([4, 5, 6]), np.ones(N)
    for _ in range(3):
        prices += [1.5 * streams.normal(random, row) for row in range(N)]
        assert walk.step(STAY).observations[:, 0].tolist() == prices.tolist()
    climb = Market(N, prices=Climb())
    climb.reset(seed=0)
    assert prices_of(climb, 3) == [[2.5] * N, [4.5] * N, [5.5] * N]
    assert climb.step(STAY).infos[0] == {"price": 7.5, "path.moves": 4}
    flat = Market(N)
    flat.reset(seed=0)
    assert prices_of(flat, 2) == [[1.0] * N] * 2 and flat.path == NoPart()


def test_its_numbers_are_parameters_like_others():
    vec = Market(N, prices=Climb(pace=[0.0, 4.0, 8.0], begun=1))
    vec.reset(seed=0)
    assert prices_of(vec, 1) == [[2.5, 3.0, 5.0]]
    assert vec.get_attr("prices") == [Climb(pace, 1) for pace in (0.0, 4.0, 8.0)]
    assert vec.path.moves.tolist() == [2] * N
    vec.set_attr("prices", Climb(pace=2.0, begun=1))
    assert prices_of(vec, 1) == [[3.0, 3.5, 5.5]]
    drawn = Market(N, prices=Walk(sigma=Randomized(0.5, 1.5)))
    told = drawn.reset(seed=3).infos.columns["prices.sigma"]
    assert told.tolist() == drawn.prices.sigma.tolist() and len(set(told)) == N


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda vec: pickle.loads(pickle.dumps(vec))], ids=["deep", "pickle"])
def test_a_copy_goes_on_alike(clone):
    vec = Market(N, prices=Climb())
    vec.reset(seed=0)
    vec.step(STAY)
    other = clone(vec)
    assert other.prices == Climb() and prices_of(other, 2) == prices_of(vec, 2)


@jit
def move_level(model, derived, state, random, i, price):
    return 9.0


class Level(NamedTuple):
    """Another function, of the same fields as ``Walk``."""

    sigma: float = 1.0

    State, Derived = Nothing, Scale
    floor = None
    derive, begin, move = staticmethod(derive_walk), staticmethod(begin_walk), staticmethod(move_level)


def test_a_snapshot_is_of_one_with_the_same_part():
    vec, other = Market(N, prices=Walk()), Market(N, prices=Level())
    for each in (vec, other):
        each.reset(seed=0)
    kept = vec.snapshot()
    with pytest.raises(ValueError, match=r"params.prices: expected .*\.Level, got .*\.Walk"):
        other.restore(kept)
    other.restore(kept, parameters="keep")
    assert prices_of(other, 1) == [[9.0] * N]


def test_a_rollout_and_a_single_env_have_the_same_part():
    @jit
    def stay(observation, action):
        action[0] = 0

    record = sekai.rollout(Market(N, prices=Climb()), stay, 3, seed=0, progress=False)
    assert record.observations[1:, 0, 0].tolist() == [2.5, 4.5]
    sekai.register("Climbing-v0", vector_entry_point=Market, kwargs={"prices": Climb(pace=2.0)})
    try:
        with sekai.make("Climbing-v0") as env:
            env.reset(seed=0)
            assert [float(env.step(0).observation[0]) for _ in range(3)] == [2.5, 3.5, 4.0]
    finally:
        sekai.deregister("Climbing-v0")


class Bare(NamedTuple):
    pace: float = 1.0


class Misfit(NamedTuple):
    pace: float = 1.0

    State, Derived = "columns", Pace


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (3.0, r"prices: expected a named tuple or a string, got 3.0"),
        (None, r"prices: expected a named tuple or a string, got None"),
        ((1.0, 2.0), r"prices: expected a named tuple or a string, got \(1.0, 2.0\)"),
        (Bare(), r"prices: expected a part whose class has a named tuple class 'State', for Market.State.path, got"),
        (Misfit(), r"prices: expected a part whose class has a named tuple class 'State', .*, got Misfit"),
        (Climb(pace="1"), r"prices.pace: expected a number"),
    ],
    ids=["number", "none", "tuple", "no columns", "columns that are none", "a wrong number"],
)
def test_what_is_no_part_for_the_market_is_refused(prices, message):
    with pytest.raises(TypeError, match=message):
        Market(N, prices=prices)


def test_its_class_stays_as_it_was_when_the_env_was_made():
    vec = Market(N, prices=Climb())
    vec.reset(seed=0)
    with pytest.raises(TypeError, match=r"prices: expected a Climb, got Walk\(sigma=1.0\)"):
        vec.set_attr("prices", Walk())
    assert prices_of(vec, 1) == [[2.5] * N]


def test_a_part_has_no_parts_of_any_class():
    class Inner(NamedTuple):
        prices: tuple = Walk()

    class Outer(NamedTuple):
        inner: Inner = Inner()

    with pytest.raises(TypeError, match=r"Params.inner.prices: expected parts of any class to be fields of a market's"):

        class Nested(Market):
            Params = Outer


class Steep(Climb):
    """A part of its own by its functions alone, with the fields of another."""

    move = staticmethod(move_walk)
    derive = staticmethod(derive_walk)
    Derived = Scale
    sigma = 1.0


def test_a_subclass_of_a_part_is_another_part():
    vec = Market(N, prices=Climb())
    with pytest.raises(TypeError, match=r"prices: expected a Climb, got Steep\(pace=4.0, begun=0\)"):
        vec.set_attr("prices", Steep())
    steep, walk = Market(N, prices=Steep()), Market(N, prices=Walk())
    for each in (steep, walk):
        each.reset(seed=3)
    expected = np.maximum(np.array(prices_of(walk, 1)), 2.5)
    assert prices_of(steep, 1) == expected.tolist()


@jit
def move_along(model, derived, state, random, i, price):
    state.moves[i] = (state.moves[i] + 1) % len(model.path)
    return model.path[state.moves[i]]


class Along(NamedTuple):
    path: np.ndarray
    begun: int = 0
    pace: float = 0.0

    State, Derived = Count, Pace
    floor = None
    derive, begin, move = staticmethod(derive_climb), staticmethod(begin_climb), staticmethod(move_along)


def test_arrays_of_a_part_keep_their_shape():
    vec = Market(N, prices=Along(np.arange(5.0)))
    vec.reset(seed=0)
    prices_of(vec, 3)
    with pytest.raises(ValueError, match=r"prices.path: expected an array of shape \(5,\), as before, got"):
        vec.set_attr("prices", Along(np.arange(2.0)))
    vec.set_attr("prices", Along(np.arange(10.0, 15.0)))
    assert prices_of(vec, 1) == [[14.0] * N]


def test_a_word_stays_a_word():
    vec = Market(N)
    with pytest.raises(AttributeError, match="prices: expected it to stay as it was when the env was made, no part"):
        vec.set_attr("prices", Climb())


class Plain(NamedTuple):
    pace: float = 1.0

    State, Derived = Count, Pace
    derive, begin, move = staticmethod(derive_climb), staticmethod(begin_climb), staticmethod(move_climb)

    @property
    def floor(self):
        return None


def test_what_a_class_has_for_each_part_is_not_read_off_the_class():
    class Other(Market):
        @staticmethod
        def infos(params):
            return ("price",) if params.prices.floor is None else ()

    with pytest.raises(TypeError, match="Plain.floor: expected a staticmethod or a constant"):
        Other(N, prices=Plain())


def test_constants_of_a_class_may_be_numpys():
    class Low(Climb):
        floor = np.float64(7.0)

    vec = Market(N, prices=Low())
    vec.reset(seed=0)
    assert prices_of(vec, 1) == [[7.0] * N]
