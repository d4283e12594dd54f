from __future__ import annotations

import json

import numpy as np
import pytest

from sekai.batching.buffers import Buffers
from sekai.batching.layout import concatenate
from sekai.normalization import DiscountedReturn, ObservationNormalizer
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, Sequence, Tuple
from sekai.stats import ExponentialMovingStats, RunningMeanStd

INF = np.inf
NESTED = Dict(
    {
        "price": Box(0.0, INF, (2,), np.float64),
        "image": Box(0, 255, (2, 2), np.uint8),
        "side": Discrete(3),
        "pair": Tuple((Box(-1.0, 1.0, ()), MultiBinary(2))),
        "orders": MaskedBox(0.0, 9.0, (2,), max_size=3, fill_value=-1.0),
        "trades": Sequence(Discrete(4)),
    }
)


def batch_of(space, n, seed=0):
    space.seed(seed)
    return concatenate(space, [space.sample() for _ in range(n)])


# -- spaces and structure ----------------------------------------------------------------------------------


def test_the_space_of_normalised_observations():
    space = ObservationNormalizer(NESTED).space
    assert space["price"] == Box(-INF, INF, (2,), np.float64)
    assert space["image"] == Box(-INF, INF, (2, 2), np.float32)
    assert space["pair"] == Tuple((Box(-INF, INF, ()), MultiBinary(2)))
    assert space["orders"] == MaskedBox(-INF, INF, (2,), max_size=3, fill_value=-1.0)
    assert space["side"] == Discrete(3) and space["trades"] == NESTED["trades"]


def test_clip_bounds_the_space():
    space = ObservationNormalizer(Tuple((Box(0, 9, (1,), np.int64), MaskedBox(0, 1, (1,), max_size=2))), clip=5.0)
    assert space.space == Tuple((Box(-5.0, 5.0, (1,)), MaskedBox(-5.0, 5.0, (1,), max_size=2)))


def test_statistics_are_nested_like_the_space():
    stats = ObservationNormalizer(NESTED).stats
    assert list(stats) == list(NESTED)
    assert isinstance(stats["price"], RunningMeanStd) and stats["price"].shape == (2,)
    assert stats["orders"].shape == (2,) and stats["image"].shape == (2, 2)
    assert isinstance(stats["pair"], tuple) and stats["pair"][1] is None
    assert stats["side"] is None and stats["trades"] is None
    assert isinstance(ObservationNormalizer(Box(0, 1), kind="ewm", halflife=7.0).stats, ExponentialMovingStats)
    assert ObservationNormalizer(Box(0, 1), kind="ewm", halflife=7.0).stats.halflife == 7.0


@pytest.mark.parametrize("kind", ["running", "ewm"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_normalised_batches_are_new_and_in_the_space(kind, clip):
    normalizer = ObservationNormalizer(NESTED, kind=kind, clip=clip)
    batch = batch_of(NESTED, 40)
    prices, images = batch["price"].copy(), batch["image"].copy()
    normalizer.update(batch)
    result = normalizer.normalize(batch)
    np.testing.assert_array_equal(batch["price"], prices)
    np.testing.assert_array_equal(batch["image"], images)
    expected = (prices - prices.mean(axis=0)) / np.sqrt(prices.var(axis=0) + 1e-8)
    bound = np.inf if clip is None else clip
    np.testing.assert_allclose(result["price"], np.clip(expected, -bound, bound), atol=1e-4)
    assert result["price"].dtype == np.float64 and result["image"].dtype == np.float32
    np.testing.assert_array_equal(result["side"], batch["side"])
    assert result["trades"] == batch["trades"]
    for i in range(40):
        row = {
            "price": result["price"][i],
            "image": result["image"][i],
            "side": batch["side"][i],
            "pair": (result["pair"][0][i], result["pair"][1][i]),
            "orders": {key: result["orders"][key][i] for key in ("values", "mask")},
            "trades": result["trades"][i],
        }
        assert normalizer.space.contains(row)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("epsilon", -1.0, "expected an epsilon of at least 0, got -1"),
        ("clip", 0.0, "expected a clip above 0 or None, got 0"),
        ("kind", "median", "expected 'running' or 'ewm', got 'median'"),
        ("halflife", 0.0, "expected a halflife above 0"),
    ],
)
def test_bad_arguments(argument, value, message):
    arguments = {"kind": "ewm", argument: value}
    with pytest.raises(ValueError, match=message):
        ObservationNormalizer(Box(0, 1), **arguments)


@pytest.mark.parametrize("space", [Discrete(3), Dict({}), Tuple((MultiBinary(2), Discrete(2)))])
def test_bad_arguments_are_refused_where_nothing_is_normalised(space):
    with pytest.raises(ValueError, match="stats: expected 'running' or 'ewm', got 'x'"):
        ObservationNormalizer(space, kind="x")
    with pytest.raises(ValueError, match="expected a halflife above 0"):
        ObservationNormalizer(space, kind="ewm", halflife=-1.0)


# -- what counts -------------------------------------------------------------------------------------------


def test_known_statistics():
    normalizer = ObservationNormalizer(Box(-INF, INF, (1,), np.float64))
    normalizer.stats.mean, normalizer.stats.var = np.array([2.0]), np.array([4.0])
    np.testing.assert_allclose(normalizer.normalize(np.array([[6.0], [2.0]])), [[2.0], [0.0]], rtol=1e-7)


def test_many_rows_and_few_rows_agree():
    space = Box(-INF, INF, (3,))
    batch = np.random.default_rng(0).normal(5.0, 2.0, (5000, 3)).astype(np.float32)
    normalizer = ObservationNormalizer(space)
    normalizer.update(batch)
    whole = normalizer.normalize(batch)
    parts = np.concatenate([normalizer.normalize(batch[i : i + 10]) for i in range(0, 5000, 10)])
    np.testing.assert_array_equal(whole, parts)


def test_only_the_rows_asked_for_count():
    normalizer, reference = ObservationNormalizer(NESTED), ObservationNormalizer(NESTED)
    batch = batch_of(NESTED, 6)
    rows = np.array([True, False, True, True, False, False])
    normalizer.update(batch, rows)
    kept = {key: batch[key][rows] for key in ("price", "image", "side")}
    kept["pair"] = tuple(part[rows] for part in batch["pair"])
    kept["orders"] = {key: batch["orders"][key][rows] for key in ("values", "mask")}
    kept["trades"] = [batch["trades"][i] for i in np.flatnonzero(rows)]
    reference.update(kept)
    assert normalizer.state_dict() == reference.state_dict()
    assert normalizer.stats["price"].count == pytest.approx(3.0, abs=1e-3)
    before = normalizer.state_dict()
    normalizer.update(batch, np.zeros(6, bool))
    assert normalizer.state_dict() == before


@pytest.mark.parametrize(
    ("space", "n"),
    [(NESTED, 5), (NESTED["pair"], 5), (NESTED["image"], 5), (NESTED["image"], 1100)],
    ids=["nested", "a tuple", "one array", "one array, by a kernel"],
)
def test_terminal_observations_are_normalised_with_a_batch_and_not_learnt_from(space, n):
    batch, finals = batch_of(space, n), batch_of(space, 3, seed=1)
    one, two = ObservationNormalizer(space, clip=1.5), ObservationNormalizer(space, clip=1.5)
    got, got_finals = one.learn_and_normalize(batch, finals, Buffers())
    two.update(batch)
    np.testing.assert_equal(got, two.normalize(batch))
    np.testing.assert_equal(got_finals, two.normalize(finals))
    assert one.state_dict() == two.state_dict()
    np.testing.assert_equal(one.learn_and_normalize(batch, None, Buffers())[1], None)


def test_a_masked_box_counts_and_normalises_occupied_slots_only():
    space = MaskedBox(-INF, INF, (1,), max_size=3, dtype=np.float64, fill_value=7.0)
    samples = [space.pack([[1.0], [3.0]], slots=[2, 0]), space.empty(), space.pack([[5.0]], slots=[1])]
    batch = concatenate(space, samples)
    normalizer = ObservationNormalizer(space, epsilon=0.0)
    normalizer.update(batch)
    assert normalizer.stats.count == pytest.approx(3.0, abs=1e-3)
    assert normalizer.stats.mean == pytest.approx(3.0)
    result = normalizer.normalize(batch)
    np.testing.assert_array_equal(result["mask"], batch["mask"])
    assert result["mask"] is not batch["mask"]
    z = np.sqrt(1.5)
    expected = [[0.0, 7.0, -z], [7.0, 7.0, 7.0], [7.0, z, 7.0]]
    np.testing.assert_allclose(result["values"][..., 0], expected, atol=1e-4)
    before = normalizer.state_dict()
    normalizer.update(concatenate(space, [space.empty()]))
    assert normalizer.state_dict() == before


@pytest.mark.parametrize("kind", ["running", "ewm"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_shown_but_not_learnt_from(kind, value):
    space = Dict({"x": Box(-INF, INF, (2,)), "y": Box(-INF, INF, ()), "z": MaskedBox(-INF, INF, (), max_size=2)})
    normalizer = ObservationNormalizer(space, kind=kind)
    rows = [
        {"x": np.float32([1.0, 2.0]), "y": np.float32(5.0), "z": space["z"].pack([1.0, value])},
        {"x": np.float32([3.0, value]), "y": np.float32(7.0), "z": space["z"].pack([3.0])},
        {"x": np.float32([3.0, 6.0]), "y": np.float32(value), "z": space["z"].empty()},
    ]
    batch = concatenate(space, rows)
    normalizer.update(batch)
    stats = normalizer.stats
    np.testing.assert_allclose(stats["x"].mean, [2.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose([stats["y"].mean, stats["z"].mean], [6.0, 2.0], rtol=1e-6)
    assert [round(stats[key].count, 3) for key in space] == [2.0, 2.0, 2.0]
    result = normalizer.normalize(batch)
    np.testing.assert_array_equal(np.isfinite(result["x"]), [[True, True], [True, False], [True, True]])
    np.testing.assert_array_equal(np.isfinite(result["z"]["values"]), [[True, False], [True, True], [True, True]])
    before = normalizer.state_dict()
    normalizer.update(batch, np.array([False, False, False]))
    assert normalizer.state_dict() == before


def test_a_masked_box_with_batch_axes():
    space = MaskedBox(0.0, 9.0, (2,), max_size=3, batch_shape=(2,))
    normalizer = ObservationNormalizer(space)
    batch = batch_of(space, 5)
    normalizer.update(batch, np.array([True, True, False, False, False]))
    assert normalizer.stats.count == pytest.approx(batch["mask"][:2].sum(), abs=1e-3)
    assert normalizer.space.batch_shape == (2,)
    result = normalizer.normalize(batch)
    assert normalizer.space.contains({key: value[0] for key, value in result.items()})


def test_large_results_are_not_written_to_again():
    space = Box(-INF, INF, (3,))
    normalizer, buffers = ObservationNormalizer(space), Buffers()
    batches = [np.random.default_rng(seed).normal(size=(5000, 3)).astype(np.float32) for seed in range(5)]
    normalizer.update(batches[0])
    results = [normalizer.normalize(batch, buffers) for batch in batches]
    for batch, result in zip(batches, results, strict=True):
        np.testing.assert_array_equal(result, normalizer.normalize(batch))


def test_memory_of_results_is_used_again():
    normalizer, buffers = ObservationNormalizer(Box(-INF, INF, (3,))), Buffers()
    batch = np.ones((5000, 3), np.float32)
    addresses = {normalizer.normalize(batch, buffers).ctypes.data for _ in range(10)}
    assert len(addresses) <= 2


# -- state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["running", "ewm"])
def test_state_round_trip_through_json(kind):
    normalizer, restored = ObservationNormalizer(NESTED, kind=kind), ObservationNormalizer(NESTED, kind=kind)
    normalizer.update(batch_of(NESTED, 6))
    state = normalizer.state_dict()
    text = json.dumps(state)
    normalizer.update(batch_of(NESTED, 3, seed=1))
    assert json.dumps(state) == text, "later updates show in a saved state"
    held = restored.stats["price"]
    restored.load_state_dict(json.loads(text))
    assert json.dumps(restored.state_dict()) == text
    assert restored.stats["price"] is held


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    normalizer = ObservationNormalizer(NESTED)
    normalizer.update(batch_of(NESTED, 6))
    before = normalizer.state_dict()

    def other(**changes):
        state = ObservationNormalizer(NESTED).state_dict()
        state["stats"].update(changes)
        return state

    ewm = ObservationNormalizer(NESTED, kind="ewm").state_dict()
    bare = ObservationNormalizer(Box(0, 1)).state_dict()
    missing = other()
    del missing["stats"]["price"]
    cases = [
        (ewm, "expected statistics of kind 'running', got 'ewm'"),
        (bare, r"stats: expected the keys \['price'"),
        (missing, "stats: expected the keys"),
        ({"kind": "running"}, "expected the keys 'kind' and 'stats'"),
        (None, "expected the keys 'kind' and 'stats'"),
        (other(orders=RunningMeanStd((3,)).state_dict()), r"stats\['orders'\]: .*shape \(2,\), got \(3,\)"),
        (other(orders=None), r"stats\['orders'\]: .*expected the keys"),
        (other(side=RunningMeanStd().state_dict()), r"stats\['side'\]: expected None"),
        (other(pair=[None]), r"stats\['pair'\]: expected 2 entries"),
        (other(pair=3), r"stats\['pair'\]: expected 2 entries"),
        (other(pair=[RunningMeanStd((1,)).state_dict(), None]), r"stats\['pair'\]\[0\]: "),
    ]
    for state, message in cases:
        with pytest.raises(ValueError, match=message):
            normalizer.load_state_dict(state)
        assert normalizer.state_dict() == before


# -- discounted returns ------------------------------------------------------------------------------------


def step(discounted, rewards, *, dones=None, live=None, learn=True):
    n = len(rewards)
    dones = np.zeros(n, np.bool_) if dones is None else np.array(dones)
    return discounted.step(np.array(rewards), dones, live if live is None else np.array(live, np.bool_), learn=learn)


def test_returns_are_discounted_and_start_again_where_an_episode_ends():
    discounted = DiscountedReturn(2, gamma=0.5)
    step(discounted, [1.0, 2.0])
    step(discounted, [1.0, 2.0], dones=[False, True])
    np.testing.assert_array_equal(discounted.returns, [1.5, 0.0])
    step(discounted, [1.0, 2.0])
    np.testing.assert_array_equal(discounted.returns, [1.75, 2.0])
    discounted.reset()
    np.testing.assert_array_equal(discounted.returns, [0.0, 0.0])
    assert discounted.return_rms.count == pytest.approx(6.0, abs=1e-3)
    assert discounted.return_rms.mean == pytest.approx(np.mean([1, 2, 1.5, 3, 1.75, 2]), rel=1e-4)


def test_envs_that_were_not_stepped_do_not_count():
    discounted = DiscountedReturn(3, gamma=1.0)
    step(discounted, [1.0, 2.0, 4.0])
    step(discounted, [1.0, 100.0, 4.0], live=[True, False, True])
    np.testing.assert_array_equal(discounted.returns, [2.0, 2.0, 8.0])
    assert discounted.return_rms.count == pytest.approx(5.0, abs=1e-3)
    assert discounted.return_rms.mean == pytest.approx(np.mean([1, 2, 4, 2, 8]), rel=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("learn", [True, False])
def test_a_reward_that_is_not_finite_is_shown_but_not_learnt_from(value, learn):
    discounted = DiscountedReturn(3, gamma=0.5)
    step(discounted, [1.0, 2.0, 4.0], learn=learn)
    step(discounted, [1.0, value, 4.0], learn=learn)
    np.testing.assert_array_equal(discounted.returns, [1.5, 2.0, 6.0])
    step(discounted, [value, 2.0, 4.0], live=[True, True, False], learn=learn)
    np.testing.assert_array_equal(discounted.returns, [1.5, 3.0, 6.0])
    assert discounted.return_rms.count == pytest.approx(6.0 if learn else 0.0, abs=1e-3)
    if learn:
        assert discounted.return_rms.mean == pytest.approx(np.mean([1, 2, 4, 1.5, 6, 3]), rel=1e-4)
    scaled = step(discounted, [1.0, value, 2.0], learn=False)
    np.testing.assert_array_equal(np.isfinite(scaled), [True, False, True])


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("value", [1.0, np.nan, np.inf, -np.inf])
def test_the_returns_of_many_envs_are_those_of_each(frozen, value):
    n = 5000
    rng = np.random.default_rng(0)
    many, few = DiscountedReturn(n, gamma=0.9), [DiscountedReturn(500, gamma=0.9) for _ in range(10)]
    for _ in range(4):
        rewards, dones = rng.normal(size=n), rng.random(n) < 0.1
        rewards[[3, 4999]] = value
        live = rng.random(n) < 0.7 if frozen else None
        many.step(rewards, dones, live)
        for part, rows in zip(few, np.split(np.arange(n), 10), strict=True):
            part.step(rewards[rows], dones[rows], None if live is None else live[rows])
        np.testing.assert_array_equal(many.returns, np.concatenate([part.returns for part in few]))
    counts = [part.return_rms.count - part.return_rms.epsilon for part in few]
    assert many.return_rms.count == pytest.approx(sum(counts), abs=1e-3)
    mean = np.average([part.return_rms.mean for part in few], weights=counts)
    assert many.return_rms.mean == pytest.approx(mean, rel=1e-6)
    assert many.return_rms.var == pytest.approx(np.mean([part.return_rms.var for part in few]), rel=0.05)


@pytest.mark.parametrize("n", [3, 3000])
def test_returns_too_large_to_square_do_not_count(n):
    discounted = DiscountedReturn(n, gamma=1.0)
    rewards = np.ones(n)
    rewards[0] = 1e200
    for _ in range(3):
        step(discounted, rewards)
    assert discounted.returns[:2].tolist() == [3e200, 3.0]
    assert discounted.return_rms.mean == pytest.approx(2.0, rel=1e-4)
    assert discounted.return_rms.count == pytest.approx(3 * (n - 1), abs=1e-3)


@pytest.mark.parametrize("n", [3, 3000])
def test_where_nothing_counts_nothing_is_learnt(n):
    discounted = DiscountedReturn(n)
    before = discounted.state_dict()
    step(discounted, np.full(n, np.nan))
    step(discounted, np.ones(n), live=np.zeros(n))
    step(discounted, np.ones(n), learn=False)
    assert discounted.state_dict() == before
    np.testing.assert_array_equal(discounted.returns, np.ones(n))


def test_large_scaled_rewards_are_not_written_to_again():
    discounted = DiscountedReturn(5000, epsilon=0.0)
    discounted.return_rms.var = np.array(4.0)
    results = [step(discounted, np.full(5000, float(k)), learn=False) for k in range(5)]
    assert [np.unique(result).tolist() for result in results] == [[0.0], [0.5], [1.0], [1.5], [2.0]]


def test_rewards_are_divided_by_the_standard_deviation():
    discounted = DiscountedReturn(2, epsilon=0.0)
    discounted.return_rms.mean, discounted.return_rms.var = np.array(50.0), np.array(4.0)
    rewards = np.array([3.0, -1.0])
    np.testing.assert_array_equal(step(discounted, rewards, learn=False), [1.5, -0.5])
    assert rewards.tolist() == [3.0, -1.0]


def test_the_state_holds_the_statistics_of_any_number_of_envs():
    discounted, restored = DiscountedReturn(2), DiscountedReturn(5)
    step(discounted, [1.0, 2.0])
    restored.load_state_dict(json.loads(json.dumps(discounted.state_dict())))
    assert restored.state_dict() == discounted.state_dict()
    np.testing.assert_array_equal(restored.returns, np.zeros(5))
    with pytest.raises(ValueError, match="expected statistics of kind 'running', got 'ewm'"):
        restored.load_state_dict({**ExponentialMovingStats().state_dict(), "epsilon": 0.0})


@pytest.mark.parametrize("arguments", [{"gamma": -0.1}, {"gamma": 1.1}, {"epsilon": -1.0}])
def test_bad_discounts(arguments):
    with pytest.raises(ValueError, match="expected a"):
        DiscountedReturn(1, **arguments)
