"""Parts: named tuples in Params, State and what is derived, with row functions of their own that markets share."""

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

from sekai import Box, Discrete, VecEnvClosed
from sekai.kernels import jit, streams
from sekai.vector import KernelVecEnv, Randomized, column

N = 3
HOLD = np.zeros(N, dtype=np.int64)

# -- a part: a price and its last shocks ---------------------------------------------------------------------


class PriceParams(NamedTuple):
    sigma: float = 0.5
    kind: str = "both"
    lags: int = 2


class PriceState(NamedTuple):
    price: np.float64
    shocks: column(np.float64, "lags")


class PriceRates(NamedTuple):
    scale: np.float64


@jit
def derive_price(params):
    return PriceRates(params.sigma * 2.0)


@jit
def move_price(params, rates, state, random, i):
    change = rates.scale * streams.normal(random, i)
    change = abs(change) if params.kind == "up" else change
    state.price[i] += change
    for k in range(state.shocks.shape[1] - 1):
        state.shocks[i, k] = state.shocks[i, k + 1]
    state.shocks[i, -1] = change


# -- a market that has it ------------------------------------------------------------------------------------


class Params(NamedTuple):
    model: PriceParams = PriceParams()
    fee: float = 0.25


class Books(NamedTuple):
    asset: PriceState
    trades: np.int64


class State(NamedTuple):
    books: Books
    count: np.int64


class Rates(NamedTuple):
    model: PriceRates
    double_fee: np.float64


class Table(NamedTuple):
    rows: Any
    step: float


class Prepared(NamedTuple):
    table: Table
    length: int


@jit
def derive_row(params) -> Rates:
    return Rates(derive_price(params.model), 2.0 * params.fee)


def prepare(params):
    return Prepared(Table(np.array([0.0, 10.0, 20.0]), 1.5), 2 + params.model.lags)


@jit
def reset_row(state, i):
    state.books.asset.price[i], state.books.trades[i], state.count[i] = 1.0, 0, 0
    for k in range(state.books.asset.shocks.shape[1]):
        state.books.asset.shocks[i, k] = 0.0


@jit
def step_row(params, derived, state, random, i, action):
    move_price(params.model, derived.model, state.books.asset, random, i)
    state.books.trades[i] += action
    state.count[i] += 1
    paid = derived.table.rows[1] + derived.table.step + derived.double_fee
    return paid, False, state.count[i] >= derived.length


@jit
def observe_row(state, i, observation):
    observation[0] = state.books.asset.price[i]


class Market(KernelVecEnv):
    Params, State = Params, State
    reset_row, step_row, observe_row, derive_row = reset_row, step_row, observe_row, derive_row
    prepare = prepare
    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)
    infos = ("books.asset.price", "books.asset.shocks", "model.sigma")
    reset_infos = ("books.asset.price", "fee")


def test_a_market_runs_the_functions_of_its_parts():
    vec = Market(N)
    first = vec.reset(seed=[4, 5, 6])
    assert first.infos[0] == {"books.asset.price": 1.0, "fee": 0.25}
    random = streams.make_streams([4, 5, 6])
    prices, shocks = np.ones(N), []
    for step in range(4):
        result = vec.step(np.array([0, 1, 1]))
        shocks.append([1.0 * float(streams.normal(random, row)) for row in range(N)])
        prices += shocks[-1]
        assert result.infos.columns["books.asset.price"].tolist() == prices.tolist()
        assert result.infos.columns["books.asset.shocks"][:, -1].tolist() == shocks[-1]
        assert (result.infos.columns["model.sigma"] == 0.5).all()
        assert (result.rewards == 12.0).all()
        assert result.truncated.all() == (step == 3)
    assert result.infos.final("final_observation").tolist() == prices[:, None].tolist()
    restart = {key: column.tolist() for key, column in result.infos.final("reset_info").items()}
    assert restart == {"books.asset.price": [1.0] * N, "fee": [0.25] * N}


def test_attributes_are_records_of_what_is_in_force():
    vec = Market(N, model=PriceParams(sigma=[0.0, 1.0, 2.0]))
    vec.reset(seed=0)
    vec.step(np.array([0, 1, 1]))
    assert vec.model.sigma.tolist() == [0.0, 1.0, 2.0] and vec.model.kind == "both"
    assert vec.get_attr("model") == [PriceParams(sigma, "both", 2) for sigma in (0.0, 1.0, 2.0)]
    assert vec.call("model") == vec.get_attr("model")
    assert vec.params.model.lags == 2 and vec.books.trades.tolist() == [0, 1, 1]
    assert [each.trades for each in vec.get_attr("books")] == [0, 1, 1]
    assert [each.asset.price for each in vec.get_attr("books")] == vec.books.asset.price.tolist()
    assert [each.asset.shocks.shape for each in vec.get_attr("books")] == [(2,)] * N
    vec.close()
    with pytest.raises(VecEnvClosed):
        vec.get_attr("model")


def test_a_part_is_changed_as_a_whole():
    vec = Market(N)
    vec.reset(seed=0)
    vec.set_attr("model", PriceParams(0.0))
    assert (vec.step(HOLD).infos.columns["books.asset.price"] == 1.0).all()
    vec.set_attr("model", [PriceParams(0.0), PriceParams(0.0), PriceParams(1.0)])
    moved = vec.step(HOLD).infos.columns["books.asset.price"] != 1.0
    assert moved.tolist() == [False, False, True]


def test_a_number_of_a_part_is_drawn_at_resets():
    vec = Market(N, model=PriceParams(sigma=Randomized(0.5, 1.5)))
    assert vec.model.sigma.tolist() == [1.0] * N
    vec.reset(seed=3)
    drawn = vec.model.sigma
    assert len(set(drawn)) == N and ((drawn >= 0.5) & (drawn <= 1.5)).all()
    assert vec.get_attr("model")[1] == PriceParams(drawn[1], "both", 2)
    for _ in range(4):
        vec.step(HOLD)
    assert not (vec.model.sigma == drawn).any()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (PriceParams(kind="up"), AttributeError, "model.kind: expected it to stay"),
        (PriceParams(lags=3), AttributeError, "model.lags: expected it to stay"),
        (PriceParams(sigma=np.nan), ValueError, "model.sigma: expected a finite number"),
        (PriceParams(sigma="1"), TypeError, "model.sigma: expected a number"),
        (0.5, TypeError, "model: expected a PriceParams, got 0.5"),
        ([PriceParams(), 0.5, PriceParams()], TypeError, "model: expected a PriceParams for each sub-env, got 0.5"),
    ],
)
def test_what_a_part_cannot_become_changes_nothing(value, error, message):
    vec = Market(N)
    vec.reset(seed=0)
    with pytest.raises(error, match=message):
        vec.set_attr("model", value)
    assert vec.model == PriceParams()
    twin = Market(N)
    twin.reset(seed=0)
    for _ in range(5):
        got, expected = vec.step(HOLD), twin.step(HOLD)
        assert (got.observations == expected.observations).all()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda vec: pickle.loads(pickle.dumps(vec))])
def test_a_copy_goes_on_alike(clone):
    vec = Market(N, model=PriceParams(sigma=Randomized(0.5, 1.5)))
    vec.reset(seed=0)
    vec.step(HOLD)
    other = clone(vec)
    for _ in range(6):
        got, expected = other.step(HOLD), vec.step(HOLD)
        assert (got.observations == expected.observations).all()
        assert (got.infos.columns["books.asset.shocks"] == expected.infos.columns["books.asset.shocks"]).all()


def test_another_record_in_its_place_is_refused():
    with pytest.raises(TypeError, match=r"model: expected a PriceParams, got PriceRates\(scale=1.0\)"):
        Market(N, model=PriceRates(1.0))
    with pytest.raises(ValueError, match=r"model.sigma: expected 3 values \(num_envs\), got 2"):
        Market(N, model=PriceParams(sigma=[0.1, 0.2]))


def test_a_size_that_could_be_that_of_two_parts_is_refused():
    class Two(NamedTuple):
        one: PriceParams = PriceParams()
        two: PriceParams = PriceParams()

    class Ambiguous(Market):
        Params = Two
        infos = reset_infos = ()

        @staticmethod
        def prepare(params):
            return Prepared(Table(np.zeros(3), 1.5), 4)

    with pytest.raises(TypeError, match="asset.shocks: expected a size that is one parameter of .*, got 'lags'"):
        Ambiguous(N)


def test_names_with_two_underscores_are_refused():
    class Odd(NamedTuple):
        model__sigma: float = 0.5

    with pytest.raises(TypeError, match="Clashes.Params.model__sigma: expected a name without two underscores"):
        type("Clashes", (Market,), {"Params": Odd})
