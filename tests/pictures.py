"""What tests of pictures share: rollouts made by hand, reading a figure, and whether anything in it overlaps."""

from __future__ import annotations

import io
from itertools import combinations

import numpy as np

from sekai import Rollout


def make_rollout(rewards, *, ends=(), frozen=None, actions=None, history=None, **infos):
    """A rollout with these rewards (T, N); episodes end by truncation at ``ends``, pairs of a step and a sub-env."""
    rewards = np.asarray(rewards, dtype=np.float64)
    no = np.zeros(rewards.shape, dtype=bool)
    truncated = no.copy()
    for step, env in ends:
        truncated[step, env] = True
    return Rollout(
        observations=np.zeros((*rewards.shape, 1)),
        actions=np.zeros(rewards.shape, dtype=np.int64) if actions is None else np.asarray(actions),
        rewards=rewards,
        terminated=no,
        truncated=truncated,
        frozen=no if frozen is None else frozen,
        last_observations=np.zeros((rewards.shape[1], 1)),
        final_indices=np.argwhere(truncated),
        final_observations=np.zeros((int(truncated.sum()), 1)),
        infos={key: np.asarray(column) for key, column in infos.items()},
        history=history,
    )


def labels(axes):
    """What the legend says."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def line(axes, label):
    """The data of the line whose label begins so."""
    (found,) = (each for each in axes.lines if str(each.get_label()).startswith(label))
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def points(axes, label):
    """The places (k, 2) of the markers with this label."""
    (found,) = (each for each in axes.collections if each.get_label() == label)
    return np.asarray(found.get_offsets())


def is_png(figure):
    """Whether it can be drawn as one, with something on it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue().startswith(b"\x89PNG") and len(buffer.getvalue()) > 2000


def check_layout(figure):
    """Titles, labels, ticks and legends lie within the figure, and over no other and no axes."""
    figure.draw_without_rendering()
    boxes = {f"axes {number}": axes.bbox for number, axes in enumerate(figure.axes)}
    boxes.update({text.get_text(): text.get_window_extent() for text in figure.texts})
    for number, axes in enumerate(figure.axes):
        titles = [child for child in axes.get_children() if hasattr(child, "get_text") and child not in axes.texts]
        for text in (*titles, axes.xaxis.label, axes.yaxis.label):
            if text.get_text():
                boxes[f"{text.get_text()} (axes {number})"] = text.get_window_extent()
        if axes.get_legend():
            boxes[f"legend (axes {number})"] = axes.get_legend().get_window_extent()
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks():
                label = tick.label1
                if label.get_visible() and label.get_text() and low <= tick.get_loc() <= high:
                    boxes[f"{axis.axis_name} tick {label.get_text()} (axes {number})"] = label.get_window_extent()
    page = figure.bbox.padded(1.0)
    for name, box in boxes.items():
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, f"{name}: {box}"
    for (name, box), (other, there) in combinations(boxes.items(), 2):
        width = min(box.x1, there.x1) - max(box.x0, there.x0)
        height = min(box.y1, there.y1) - max(box.y0, there.y0)
        assert width <= 1.0 or height <= 1.0, f"{name} lies over {other}"
