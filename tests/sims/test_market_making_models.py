"""``MarketMaking-v0`` with a price model as its mid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive_market_making import NaiveMarketMaker
from naive_prices import Draws, NaiveHeston

import sekai
from sekai.vector import Randomized
from sims.market_making import GLFT, AvellanedaStoikov, FixedSpread, MarketMakingVecEnv
from sims.prices import (
    Brownian,
    Garch,
    Geometric,
    Heston,
    LogOrnsteinUhlenbeck,
    MertonJumps,
    OrnsteinUhlenbeck,
    RegimeSwitching,
)


class SharedDraws(Draws):
    """Of the stream of a quoter."""

    def __init__(self, maker):
        self.words = maker.draw_words


class ModelMaker(NaiveMarketMaker):
    """The quoter with a mid that the twin of a model moves."""

    def __init__(self, seed, model, twin, **terms):
        super().__init__(seed, **terms)
        self.model, self.twin = model, twin

    def reset(self):
        told = super().reset()
        self.prices = self.twin(self.model, self.dt, None, self.initial_price, SharedDraws(self))
        return told

    def moved(self, z):
        return self.prices.path(1)[1]


@pytest.mark.form
def test_the_market_equals_its_twin():
    model, twin = Heston(drift=0.1), NaiveHeston
    vec = MarketMakingVecEnv(3, midprice=model, n_steps=7, arrival_rate=20.0, observe="full")
    first = vec.reset(seed=[3, 4, 5])
    makers = [ModelMaker(seed, model, twin, **vec.params._asdict()) for seed in (3, 4, 5)]
    begun = [maker.reset() for maker in makers]
    assert first.observations.tolist() == [observation for observation, _ in begun]
    rng, wealth, fills = np.random.default_rng(0), np.zeros(3), 0
    for step in range(14):
        actions = rng.uniform(-0.2, 1.0, (3, 2)).astype(np.float32)
        result = vec.step(actions)
        for i, maker in enumerate(makers):
            reward, over, info = maker.step(actions[i])
            told = result.infos[i]
            told = told["final_info"] if over else told
            assert (result.rewards[i], result.truncated[i]) == (reward, over) and told == info
            assert info["wealth"] - wealth[i] == pytest.approx(reward, abs=1e-12 * 100.0)
            wealth[i], fills = info["wealth"], fills + info["bid_filled"] + info["ask_filled"]
            if over:
                assert step == 6 or step == 13
                maker.reset()
                wealth[i] = 0.0
    assert 5 < fills < 80


@pytest.mark.form
def test_a_model_of_the_same_law_fills_alike_and_differs_in_its_draws():
    named = MarketMakingVecEnv(4, n_steps=5)
    given = MarketMakingVecEnv(4, n_steps=5, midprice=Brownian(volatility=2.0))
    results = []
    for vec in (named, given):
        vec.reset(seed=9)
        results.append(vec.step(np.full((4, 2), 0.3, np.float32)).infos.columns)
    left, right = results
    assert left["bid_filled"].tolist() == right["bid_filled"].tolist()  # the first block of the step is theirs
    assert (left["mid_price"] != right["mid_price"]).all()


@pytest.mark.parametrize(
    ("midprice", "error", "message"),
    [
        (Geometric(volatility=-1.0), ValueError, "midprice.volatility: expected .* got -1.0"),
        ((1.0,), TypeError, "midprice: expected a named tuple or a string"),
        ("heston", ValueError, "midprice: expected 'brownian' or 'geometric' or 'ou' or 'jumps', got 'heston'"),
    ],
    ids=["range", "tuple", "word"],
)
def test_what_is_no_midprice_is_refused_by_name(midprice, error, message):
    with pytest.raises(error, match=message):
        MarketMakingVecEnv(2, midprice=midprice)


@pytest.mark.parametrize(
    ("model", "least"),
    [(Geometric(), -1.0), (Heston(), -1.0), (Brownian(), -math.inf)],
    ids=["geometric", "heston", "brownian"],
)
def test_the_return_seen_is_above_minus_1_where_prices_are_above_0(model, least):
    params = MarketMakingVecEnv.Params(midprice=model, observe="full")
    assert MarketMakingVecEnv.observation_space(params).low[2] == least


@pytest.mark.form
@pytest.mark.parametrize(
    ("model", "volatility"),
    [
        pytest.param(Brownian(volatility=3.0), 3.0, marks=pytest.mark.form),
        (Geometric(volatility=0.02), 1.0),
        pytest.param(OrnsteinUhlenbeck(volatility=3.0), 3.0, marks=pytest.mark.form),
        pytest.param(LogOrnsteinUhlenbeck(volatility=0.02), 1.0, marks=pytest.mark.form),
        pytest.param(MertonJumps(volatility=0.02), 1.0, marks=pytest.mark.form),
    ],
    ids=lambda value: type(value).__name__,
)
def test_baselines_quote_by_the_volatility_of_the_model(model, volatility):
    vec = MarketMakingVecEnv(2, midprice=model, initial_price=50.0)
    assert AvellanedaStoikov.for_env(vec, gamma=0.1).volatility == volatility
    two = MarketMakingVecEnv(2, midprice=model._replace(volatility=[0.01, 0.02]), initial_price=50.0)
    factor = 50.0 if volatility == 1.0 else 1.0
    assert AvellanedaStoikov.for_env(two, gamma=0.1).volatility.tolist() == [0.01 * factor, 0.02 * factor]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(Heston(), marks=pytest.mark.form),
        pytest.param(Garch(), marks=pytest.mark.form),
        pytest.param(RegimeSwitching(), marks=pytest.mark.form),
    ],
    ids=["heston", "garch", "regimes"],
)
def test_baselines_ask_for_the_volatility_of_a_model_without_one(model):
    vec = MarketMakingVecEnv(2, midprice=model)
    with pytest.raises(ValueError, match=rf"GLFT: expected the volatility to go by.*a {type(model).__name__}"):
        GLFT.for_env(vec)
    assert GLFT.for_env(vec, volatility=2.0).volatility == 2.0
    FixedSpread.for_env(vec)


@pytest.mark.form
def test_a_drawn_volatility_of_a_model_is_not_read():
    vec = MarketMakingVecEnv(2, midprice=Geometric(volatility=Randomized(0.1, 0.2)))
    with pytest.raises(ValueError, match=r"midprice.volatility is drawn anew at each episode"):
        GLFT.for_env(vec)


@pytest.mark.long
@pytest.mark.parametrize("model", [Heston(), RegimeSwitching()], ids=lambda model: type(model).__name__)
def test_the_checker_finds_no_problem(model):
    def factory(num_envs, **kwargs):
        return MarketMakingVecEnv(num_envs, midprice=model, n_steps=20, **kwargs)

    assert [each for each in sekai.check_vec_env(factory) if not each.startswith("hint: ")] == []
