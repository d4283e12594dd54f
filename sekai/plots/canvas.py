"""What every picture shares: how a figure is made, its colours, its axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Of the palette that Okabe and Ito (2008), "Color universal design", chose for all kinds of colour vision.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
DARK, GREY = "#333333", "#888888"

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
_LINE_STYLES = ("-", "--", "-.", ":")

#: Of ticks and legends, points.
SMALL = 8
#: What ticks and label of a horizontal axis take, points.
_LABELS_BELOW = 38.0
#: What a row of a legend takes, inches, and for how many a figure has room anyhow.
_ROW, _ROWS_FOR_FREE = 0.175, 3
#: Characters of a name in a legend.
_LONGEST_NAME = 30


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, which finds room for its labels by itself.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f'plots need matplotlib, pip install ".[plot]" in the clone: {error}') from error
    return Figure(figsize=(width, height), layout="constrained")


def height_with(rows: int, height: float) -> float:
    """The height in inches of a figure of so many, once a legend of so many rows stands below its axes."""
    return height + _ROW * max(0, rows - _ROWS_FOR_FREE)


def name_of(name: object) -> str:
    """A name as a legend can show it: on one line, without the middle of a long one."""
    text = " ".join(str(name).split())
    if len(text) > _LONGEST_NAME:
        kept = _LONGEST_NAME // 2 - 2
        text = f"{text[:kept]} ... {text[-kept:]}"
    return f" {text}" if text.startswith("_") else text  # Matplotlib leaves out whatever begins with "_"


def line_of(number: int) -> dict[str, Any]:
    """Colour and style of a line that can be told from those before it, in black and white too."""
    style = (number + number // len(_COLOURS)) % len(_LINE_STYLES)
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": _LINE_STYLES[style]}


def dress(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Give axes a title, labels with units, a faint grid and no frame."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x, fontsize=SMALL + 1)
    axes.set_ylabel(y, fontsize=SMALL + 1)
    axes.tick_params(labelsize=SMALL)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def whole_numbers(axis: Axis) -> None:
    """Let the ticks of an axis be whole numbers, in thousands."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=(1, 2, 5, 10)))
    axis.set_major_formatter("{x:,.0f}")


def legend_below(axes: Axes, columns: int = 1) -> None:
    """A legend under the axes and their labels, where it hides nothing; none where it would be empty."""
    from matplotlib.transforms import ScaledTranslation

    if not axes.get_legend_handles_labels()[0]:
        return
    down = ScaledTranslation(0.0, -_LABELS_BELOW / 72.0, axes.figure.dpi_scale_trans)
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=axes.transAxes + down,
        ncols=columns,
        fontsize=SMALL,
        frameon=False,
        borderaxespad=0.0,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a "$" in a name is a dollar


def note(axes: Axes, text: str) -> None:
    """Say in the middle of empty axes why they are."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=SMALL + 1, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])
