"""What is refused or warned of before a price model moves anything: its class, its numbers, the time of a step."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sekai
from sims.market_making import MarketMakingVecEnv
from sims.prices import (
    BlockBootstrap,
    Brownian,
    Garch,
    Geometric,
    Heston,
    LogOrnsteinUhlenbeck,
    MertonJumps,
    OrnsteinUhlenbeck,
    RegimeSwitching,
    check_model,
)
from sims.prices.model import ArrayCheck
from sims.trading import SimulatedTradingVecEnv, TradingVecEnv

MISSES_FELLER = "Feller's condition 2 speed mean >= volatility^2 does not hold"


def variant(**members):
    """An instance of a class that differs from ``Geometric``."""
    return type("Mine", (Geometric,), members)()


# -- classes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Geometric, r"^prices: expected an instance, Geometric\(\), got the class"),
        (variant(check=lambda model: None), "^prices: expected Mine.check to be a staticmethod"),
        (variant(move=Geometric.move), "^prices: expected Mine.move to be a staticmethod"),
        (variant(begin=staticmethod(len)), "^prices: expected Mine.begin to be compiled by sekai.kernels.jit"),
        (variant(derive=staticmethod(len)), "^prices: expected Mine.derive to be compiled by sekai.kernels.jit"),
        (variant(is_positive=1), "^prices: expected Mine.is_positive to be a bool, got 1"),
        (variant(is_positive=property(bool)), "^prices: expected Mine.is_positive to be a bool, got <property"),
    ],
    ids=["class", "check", "move", "begin", "derive", "is_positive", "property"],
)
def test_a_class_that_is_nearly_a_model_is_refused_by_its_member(model, message):
    with pytest.raises(TypeError, match=message):
        check_model("prices", model)


def test_what_is_nearly_a_model_is_traded_as_no_history():
    class Nearly(tuple):
        _fields = ("drift", "volatility")

    for prices, message in (
        (Geometric, r"prices: expected an instance, Geometric\(\), got the class"),
        (Nearly((0.1, 0.2)), r"prices: expected a price model .*, got \(0.1, 0.2\), without \['State', 'Derived'"),
        (variant(is_positive=1), "prices: expected Mine.is_positive to be a bool"),
    ):
        with pytest.raises(TypeError, match=message):
            sekai.make_vec("Trading-v0", 2, prices=prices)
        with pytest.raises(TypeError, match="prices: expected a history.*a model is for SimulatedTradingVecEnv"):
            TradingVecEnv(2, prices=prices)


def test_an_error_of_a_model_has_the_fields_at_their_place_whatever_its_class():
    class Wrong(ValueError):
        def __init__(self, first, second):
            super().__init__(first + second)

    def raising(*error):
        def check(model):
            raise error[0](*error[1:])

        return variant(check=staticmethod(check))

    for error, kind, message in (
        ((Wrong, "drift, volatility: expected ", "less"), ValueError, "^mid.drift, mid.volatility: expected less$"),
        ((TypeError, "volatility, row 3: expected"), TypeError, "^mid.volatility, row 3: expected$"),
        ((ValueError, "expected: something else"), ValueError, "^mid: expected: something else$"),
    ):
        with pytest.raises(kind, match=message):
            check_model("mid", raising(*error))


# -- numbers -----------------------------------------------------------------------------------------------------

TINY = Heston(volatility=1e-12, mean=1e-2)


@pytest.mark.parametrize(
    ("model", "dt", "message"),
    [
        (Geometric(volatility=1e308), 100.0, "prices: expected parameters of which finite numbers .*, got shift=-inf"),
        (Brownian(drift=1e308), 100.0, "prices: expected .* a step of 100, got shift=inf of Brownian"),
        (LogOrnsteinUhlenbeck(speed=1e6, volatility=1e6), 1.0, "prices.volatility: expected a standard deviation of"),
        (OrnsteinUhlenbeck(speed=5e-324), 1.0, "prices.speed: expected a finite number of at least 1e-30, got 5e-324"),
        (Heston(variance0=0.0, speed=1e-160), 1.0, "prices.speed: expected a finite number of at least 1e-30"),
        (Heston(volatility=1e-170, mean=1e308), 1.0, r"prices.mean: expected a finite number of at most 1e\+30"),
        (TINY, 1e-4, "prices.volatility: expected a number of at least 1e-07, .* got 1e-12: .* there is Geometric"),
        (TINY._replace(variance0=1.0), 1e-4, "prices.volatility: expected a number of at least 1e-06"),
        (MertonJumps(drift=1e308), 100.0, "prices: expected .* got shift=inf"),
        (MertonJumps(jump_rate=1e8), 20.0, r"prices.jump_rate: expected at most 1e\+09 jumps per step, got 2e\+09"),
        (MertonJumps(jump_mean=-1e308), 1.0, r"prices.jump_mean: expected a finite number of at least -1e\+100"),
        (RegimeSwitching(volatility=np.array([1e308, 1.0])), 1.0, r"prices.volatility: expected .* at most 1e\+100"),
        (RegimeSwitching(drift=np.array([-1e308, 1.0])), 1.0, r"prices.drift: expected numbers of at most 1e\+100"),
        (Garch(omega=1e308), 1.0, r"prices.omega: expected a finite number of at most 1e\+100"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tuple) else "",
)
def test_a_step_that_would_not_be_a_number_is_refused_by_name(model, dt, message):
    with pytest.raises(ValueError, match=message):
        check_model("prices", model, dt=dt)


def test_markets_check_by_the_time_of_their_steps():
    many = MertonJumps(jump_rate=1e12)
    for vec in (MarketMakingVecEnv, SimulatedTradingVecEnv):
        with pytest.raises(ValueError, match="jump_rate: expected at most"):
            vec(2, **{"midprice" if vec is MarketMakingVecEnv else "prices": many})
    check_model("prices", many, dt=1e-3)
    check_model("prices", many)
    check_model("prices", TINY._replace(scheme="euler"), dt=1e-4)
    for model in (OrnsteinUhlenbeck(), Heston(), Garch(), RegimeSwitching(), BlockBootstrap(np.zeros(3))):
        check_model("prices", model, dt=1.0 / 252.0)


def test_shared_arrays_are_checked_once():
    checked = []
    check = ArrayCheck(lambda *arrays: checked.append(arrays))
    fixed, other = np.zeros(3), np.ones(3)
    fixed.flags.writeable = other.flags.writeable = False
    for arrays in ((fixed, None), (fixed, None), (fixed, other), (fixed, other), (other, None), (other, None)):
        check(*arrays)
    assert len(checked) == 3
    mine = np.zeros(3)
    for array in (mine, mine, mine[:], [0.0], [0.0]):
        check(array, None)
    assert len(checked) == 8
    model = BlockBootstrap(mine)
    check_model("prices", model)
    mine[1] = np.nan
    with pytest.raises(ValueError, match="prices.log_returns: expected .* got nan at 1"):
        check_model("prices", model)


# -- warnings ----------------------------------------------------------------------------------------------------


def warned(make):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        make()
    assert all(each.category is UserWarning and each.filename == __file__ for each in told)
    return [str(each.message) for each in told]


def test_a_warning_names_the_fields_in_the_market_at_the_line_that_calls_it():
    model, fields = Heston(volatility=0.5), ("speed", "mean", "volatility")
    for vec, place in ((SimulatedTradingVecEnv, "prices"), (MarketMakingVecEnv, "midprice")):
        (told,) = warned(lambda vec=vec, place=place: vec.check(vec.Params(**{place: model})))
        assert told.startswith(", ".join(f"{place}.{field}" for field in fields) + f": {MISSES_FELLER}")


@pytest.mark.slow
def test_a_warning_is_told_once_an_env_at_the_line_that_makes_it():
    (told,) = warned(lambda: SimulatedTradingVecEnv(3, prices=Heston(volatility=[0.3, 0.5, 0.6])))
    assert MISSES_FELLER in told


def test_steps_that_are_too_long_for_a_scheme_are_warned_of():
    fast = Heston(speed=30.0, correlation=-1.0)
    (told,) = warned(lambda: check_model("prices", fast, dt=0.11))
    assert told.startswith("prices.speed, prices.correlation: expected steps of at most 3 / speed")
    assert not warned(lambda: check_model("prices", fast, dt=0.1))
    assert not warned(lambda: check_model("prices", fast._replace(correlation=0.1), dt=0.3))
    assert not warned(lambda: check_model("prices", fast))
    euler = fast._replace(scheme="euler")
    (told,) = warned(lambda: check_model("prices", euler, dt=0.04))
    assert told.startswith('prices.speed: with "euler", expected steps of at most 1 / speed')
    assert not warned(lambda: check_model("prices", euler, dt=0.03))
