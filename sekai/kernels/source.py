"""The source of a market's compiled functions, written from its row functions.

Numba has neither arguments by name nor loops over the fields of a named tuple. Of every market it is the same few loops
over a block of rows: step, observe, the time limit, info columns; then, for the rows that have ended, terminal
observations and resets. ``step()``, rollouts and single envs all go through that block.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np

from sekai.batching.slab import Column, Slab, as_word
from sekai.kernels import streams
from sekai.kernels.constants import Constant
from sekai.kernels.fields import Fields
from sekai.kernels.jit import compile_kernel
from sekai.kernels.market import Batch, Field, Market, Record
from sekai.kernels.returned import WRITES, flag_of, nothing_of, reward_of, whole_of
from sekai.kernels.rowviews import columns_of, read_only_rows_of, rows_of, scratch

_F8, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)

#: Items of an action that are checked one by one; a loop over more of them is compiled in a fraction of the time.
MOST_UNROLLED = 16

_FLAGS = ("terminated", "truncated")
_KINDS = (
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float32, np.float64),
)


@functools.lru_cache(maxsize=None, typed=True)
def constant(value: Any) -> Constant:
    """A constant, the same one for the same value."""
    return Constant(value)


class MarketSource:
    """Writes the compiled functions of a market; the pieces of source that several of them have are its methods.

    All functions are given the addresses of the memory and of what a step writes: rewards, the two flags, each array of
    observations, the slab of infos, and ``kept``, the arrays of rows that ended. In the source a number or a column is
    a variable of its field's name; a number lies in the memory as ``slot_{name}``.

    Args:
        market: What they are made from.
        infos: The keys that a step tells.
        apart: Whether each info has an address of its own, and none is told of resets, as in a rollout.
    """

    def __init__(self, market: Market, infos: Iterable[str], apart: bool = False) -> None:
        self.market = market
        self.apart = apart
        self.infos = {key: market.told[key] for key in infos}
        self.resets = {} if apart else market.reset_infos
        self.kept = market.kept[: 1 + len(market.observations.parts) + len(self.resets)]
        self.scope: dict[str, Any] = {
            # Not the market's: that of a class made by type() is "abc", whose functions the cache takes to be known.
            "__name__": __name__,
            "_Streams": streams.Streams,
            "_uniform": streams.uniform,
            "_rows": rows_of,
            "_read_only_rows": read_only_rows_of,
            "_whole": whole_of,
            "_reward": reward_of,
            "_flag": flag_of,
            "_nothing": nothing_of,
            "_prange": numba.prange,
            "_zeros": np.zeros,
            "_scratch": scratch,
            "_inf": np.inf,
            **{f"_{kind.__name__.rstrip('_')}": kind for kind in _KINDS},
            **{f"_{what}_row": function for what, (function, _) in market.functions.items()},
        }
        self.seen = [f"seen{k}" for k in range(len(market.observations.parts))]
        self.actions = [f"action{k}" for k in range(len(market.actions.parts))]
        self.shared = [each.name for each in market.arrays]
        self.written = [f"result{k}" for k in range(4 + len(self.seen))]  # rewards, flags, observations and infos

    def named(self, value: Any) -> str:
        """A name in the scope of the source for a class, a function or a constant."""
        for name, known in self.scope.items():
            if known is value:
                return name
        name = f"_{getattr(value, '__name__', 'constant')}{len(self.scope)}"
        self.scope[name] = value
        return name

    # -- what row functions get

    def record(self, record: Any, at: str = "") -> str:
        """A record of row ``at``."""
        if isinstance(record, Record):
            return f"{self.named(record.kind)}({', '.join(self.record(part, at) for part in record.fields)})"
        if record.kind == "constant":
            return repr(record.value) if numba.config.DISABLE_JIT else self.named(constant(record.value))
        return f"{record.name}[{at}]" if record.kind == "column" else str(record.name)

    def items(self, batch: Batch, prefix: str, at: str) -> str:
        """Row ``at`` of a batch of arrays ``{prefix}{k}``."""
        rows = ", ".join(f"{prefix}{k}[{at}]" for k in range(len(batch.parts)))
        if batch.kind is None:
            return rows
        return f"({rows},)" if batch.kind is tuple else f"{self.named(batch.kind)}({rows})"

    def call(self, what: str, at: str, elapsed: str = "0", seen_at: str = "") -> str:
        """The call of a row function for row ``at``, with the arguments that it names; ``seen_at``: of observations."""
        market = self.market
        given: dict[str, Callable[[], str]] = {
            "params": lambda: self.record(market.params, at),
            "derived": lambda: self.record(market.derived, at),
            "state": lambda: "state",
            "random": lambda: "random",
            "i": lambda: at,
            "elapsed": lambda: elapsed,
            "action": lambda: self.items(market.actions, "act", at),
            "observation": lambda: self.items(market.observations, "seen", seen_at or at),
            "mask": lambda: self.items(market.masks or Batch(()), "mask", seen_at or at),
            "options": lambda: self.record(market.options),
        }
        called = f"_{what}_row({', '.join(given[name]() for name in market.functions[what][1])})"
        return f"_nothing({called})" if what in WRITES else called

    # -- memory

    def with_memory(
        self, lo: str, hi: str, lines: Iterable[str], given: Iterable[str] = (), address: str = "addresses[0]"
    ) -> list[str]:
        """Lines, and before them those that make the columns, the numbers and the records that they use.

        Every column costs a compiler time, so that none is made for nothing.

        Args:
            lo: Where the columns begin.
            hi: Where they end.
            lines: What uses them.
            given: The names of those that are there.
            address: Of the memory.
        """
        lines = list(lines)
        words = set(re.findall(r"\w+", " ".join(lines))) - set(given)
        records = {"state": self.record(self.market.state), "random": "_Streams(key, counter)"}
        made = [f"{name} = {source}" for name, source in records.items() if name in words]
        words |= set(re.findall(r"\w+", " ".join(made)))
        names = [each.name for each in self.market.memory.columns]
        used = tuple(name for name in names if name in words or name.removeprefix("slot_") in words)
        numbers = [name.removeprefix("slot_") for name in used if name.startswith("slot_")]
        if not used:
            return lines
        columns = self.named(columns_of(self.market.memory, used))
        return [
            f"{', '.join(used)}, = {columns}({address}, n, {lo}, {hi})",
            *(f"{name} = slot_{name}[0]" for name in numbers if name in words),
            *made,
            *lines,
        ]

    def results(self) -> list[str]:
        """Lines that make the arrays a step writes: rows ``lo`` to ``hi`` of most, all of those of rows that ended."""
        market = self.market
        slabs = [Slab.of([Column("rewards", _F8)]), *(Slab.of([Column(name, _BOOL)]) for name in _FLAGS)]
        slabs += [
            Slab.of([Column(name, part.dtype, part.shape)])
            for name, part in zip(self.seen, market.observations.parts, strict=True)
        ]
        slabs += [market.slab_of([key]) for key in self.infos] if self.apart else [market.slab_of(self.infos)]
        rows = ["lo, hi"] * len(slabs)
        columns_by_name = {each.name: each for each in market.memory.columns}
        kept = [columns_by_name[name] for name in self.kept]  # in the order of their addresses
        slabs, rows = slabs + [Slab.of([each]) for each in kept], rows + ["0, n"] * len(kept)
        lines = []
        for k, (slab, of_rows) in enumerate(zip(slabs, rows, strict=True), start=1):
            names = tuple(each.name for each in slab.columns)
            if names:
                columns = self.named(columns_of(slab, names))
                lines.append(f"{', '.join(names)}, = {columns}(addresses[{k}], n, {of_rows})")
        return lines

    def rows(self) -> list[str]:
        """Lines that make the rows ``lo`` to ``hi`` of the actions, as row functions get them: not to be written to."""
        lines = []
        for k, part in enumerate(self.market.actions.parts):
            if part.is_number:
                lines.append(f"act{k} = action{k}[lo:hi]")
            elif len(part.shape) > 1:
                rows = f"_read_only_rows(action{k}, lo, hi, {part.width})"
                lines.append(f"act{k} = {rows}.reshape((hi - lo, {', '.join(map(str, part.shape))}))")
            else:
                lines.append(f"act{k} = _read_only_rows(action{k}, lo, hi, {part.width})")
        return lines

    # -- what happens to one row

    def begin(self, at: str, now: str) -> list[str]:
        """Lines that begin an episode in row ``at``: parameters drawn, what follows from them, the state."""
        lines = [f"began[{at}] = {now}"]
        for name in self.market.randomized:
            drawn = f"low_{name} + (high_{name} - low_{name}) * _uniform(random, {at})"
            lines.append(f"{name}[{at}] = min(high_{name}, {drawn})")
        if self.market.randomized:
            lines += self.derive(at)
        return [*lines, self.call("reset", at)]

    def derive(self, at: str) -> list[str]:
        """Lines that work out what follows from the parameters of row ``at``."""
        if "derive" not in self.market.functions:
            return []
        lines = [f"follows = _whole({self.call('derive', at)})"]
        for each, item in self.market.follows:
            lines.append(f"{each.name if each.kind == 'column' else 'slot_' + each.name}[{at}] = follows{item}")
        return lines

    def tell(self, told: dict[str, Field], prefix: str, to: str, at: str, now: str) -> list[str]:
        """A line for each info of row ``at``, which writes it to row ``to`` of its column."""
        lines = []
        for key, each in told.items():
            if each.kind in ("column", "state"):
                lines += _copy_row(f"{prefix}_{as_word(key)}", to, each.name, at, each.shape)
            else:
                source = f"{now} - began[{at}]" if each.kind == "elapsed" else each.name
                lines.append(f"{prefix}_{as_word(key)}[{to}] = {source}")
        return lines

    # -- functions

    def block(self, mode: str) -> list[str]:
        """The step of rows ``lo`` to ``hi`` after ``now`` steps; ``total``, rows that have ended, goes on.

        Args:
            mode: See ``Fused.step``.
        """
        market = self.market
        freezes, observes = mode in ("freeze", "go on"), mode != "go on"
        stepped = [
            f"reward, over, cut = _whole({self.call('step', 'i', 'now - began[i]')})",
            "rewards[i], terminated[i], truncated[i] = _reward(reward), _flag(over), _flag(cut)",
        ]
        if freezes:
            held = "rewards[i], terminated[i], truncated[i] = 0.0, was_terminated[i], was_truncated[i]"
            stepped = ["if frozen[i]:", f"    {held}", *["    began[i] += 1"] * observes, "else:", *_indented(stepped)]
        loop = [*_each_row(stepped)]
        parts = [(f"seen{k}", f"final{k}", part.shape) for k, part in enumerate(market.observations.parts)]
        if mode == "freeze":  # what a frozen row shows is kept where other modes keep those that ended, by row
            again = [line for seen, final, shape in parts for line in _copy_row(seen, "i", final, "lo + i", shape)]
            observed = self.call("observe", "i", "after - began[i]")
            loop += _each_row(["if frozen[i]:", *_indented(again), "else:", f"    {observed}"])
        elif observes:
            loop += _each_row([self.call("observe", "i", "after - began[i]")])
        if market.limited and observes:
            at_limit = "after - began[i] >= limit"
            loop += _each_row([f"truncated[i] |= {f'({at_limit}) & (not frozen[i])' if freezes else at_limit}"])
        for key, each in self.infos.items():  # a loop for each: most are copies of memory
            loop += _each_row(self.tell({key: each}, "told", "i", "i", "after"))
        ended = "terminated[i] | truncated[i]"
        if mode == "freeze":
            ends = ["ended[total] = lo + i", "total += 1", "frozen[i] = True"]
            ends.append("was_terminated[i], was_truncated[i] = terminated[i], truncated[i]")
            ends += [line for seen, final, shape in parts for line in _copy_row(final, "lo + i", seen, "i", shape)]
            loop += _each_row(["absent[i] = frozen[i]", f"if ({ended}) and not frozen[i]:", *_indented(ends)])
        elif observes:
            loop += ["ends = 0", *_each_row([f"ends += _int32({ended})"]), "if ends > 0:"]
            loop += _indented(_each_row([f"if {ended}:", *_indented(self.end(mode))]))
        made = [*self.results(), *self.rows()]
        return ["after = now + 1", *self.with_memory("lo", "hi", [*made, *loop], [*self.kept, "now"])]

    def end(self, mode: str) -> list[str]:
        """Lines for row ``i``, whose episode has ended."""
        lines = ["ended[total] = lo + i"]
        for k, part in enumerate(self.market.observations.parts):
            lines += _copy_row(f"final{k}", "total", f"seen{k}", "i", part.shape)
        if mode == "reset":
            lines += self.begin("i", "after")
            lines += self.tell(self.resets, "reset", "total", "i", "after")
            lines.append(self.call("observe", "i"))
        return [*lines, "total += 1"]

    def invalid(self, freezes: bool) -> list[str]:
        """Count what is no action in rows ``lo`` to ``hi``, as ``bad``; that of a frozen row is not looked at."""
        lines = ["bad = 0"]
        for k, part in enumerate(self.market.actions.parts):
            width = part.width
            if len(set(part.valid)) == 1 and not freezes:
                flat = f"action{k}.reshape(-1)" if numba.config.DISABLE_JIT else f"action{k}"
                lines += [f"flat{k} = _rows({flat}, lo * {width}, hi * {width}, 1)", f"for i in range(len(flat{k})):"]
                lines.append(f"    bad += _int32(not ({part.valid[0].format(x=f'flat{k}[i, 0]')}))")
            elif width > MOST_UNROLLED:
                runs = [(valid, len(list(run))) for valid, run in itertools.groupby(part.valid)]
                if part.limits:
                    low, high = part.limits
                    self.scope[f"_low{k}"], self.scope[f"_high{k}"] = (
                        np.array(low, part.dtype),
                        np.array(high, part.dtype),
                    )
                    finite = " & (abs({x}) < _inf)" if part.dtype.kind == "f" else ""
                    runs = [(f"({{x}} >= _low{k}[j]) & ({{x}} <= _high{k}[j]){finite}", width)]
                lines += [f"act{k} = _rows(action{k}, lo, hi, {width})", "for i in range(hi - lo):"]
                lines += ["    if not frozen[i]:"] if freezes else ["    if True:"]
                start = 0
                for valid, length in runs:
                    lines.append(f"        for j in range({start}, {start + length}):")
                    lines.append(f"            bad += _int32(not ({valid.format(x=f'act{k}[i, j]')}))")
                    start += length
            elif part.valid:
                items = [f"act{k}[i]"] if part.is_number else [f"act{k}[i, {j}]" for j in range(part.width)]
                lines += ([] if part.is_number else [f"act{k} = _rows(action{k}, lo, hi, {part.width})"]) or self.rows()
                good = " & ".join(f"({each.format(x=item)})" for each, item in zip(part.valid, items, strict=True))
                good = f"({good}) | frozen[i]" if freezes else good
                lines += ["for i in range(hi - lo):", f"    bad += _int32(not ({good}))"]
        return self.with_memory("lo", "hi", lines)

    def functions(self, invalid: list[str], block: list[str]) -> list[str]:
        """The functions that a parallel loop calls; a serial one has their lines in it, compiled once."""
        actions = ", ".join(self.actions)
        return [
            f"def invalid(lo, hi, n, addresses, {actions}):",
            *_indented([*invalid, "return bad"]),
            f"def block(total, lo, hi, now, n, addresses, {', '.join([actions, *self.shared])}):",
            *_indented([*block, "return total"]),
        ]

    def step(self, mode: str) -> list[str]:
        """The step of all rows, serial and parallel: both return how many ended, or -1 if an action is none."""
        invalid, of_block = self.invalid(mode in ("freeze", "go on")), self.block(mode)
        actions = ", ".join(self.actions)
        passed = ", ".join([actions, *self.shared])
        block = self.market.block
        count = ["slot_now[0] = now + 1"] if mode != "go on" else []
        kept = {"freeze": self.kept[:1], "keep": self.kept[: 1 + len(self.seen)]}.get(mode, self.kept)
        shapes = {each.name: each.shape for each in self.market.memory.columns}
        gather = [line for name in kept for line in _copy_row(name, "total", name, "start + k", shapes[name])]
        gather.append("total += 1")
        given = ", ".join(["addresses", *self.written, passed])
        told = [f"addresses[{k}] = _int64({name}.ctypes.data)" for k, name in enumerate(self.written, start=1)]
        serial = [
            *told,
            "lo, hi = 0, n",
            *invalid,
            "if bad > 0:",
            "    return -1",
            *self.with_memory("0", "n", ["total = 0 * now"]),
            f"for lo in range(0, n, {block}):",
            f"    hi = min(lo + {block}, n)",
            *_indented(of_block),
            *count,
            "return total",
        ]
        parallel = [
            *told,
            f"if _invalid(0, n, n, addresses, {actions}) > 0:",
            "    return -1",
            "counts = _zeros(num_threads, _int64)",
            "for thread in _prange(num_threads):",
            "    start, stop = thread * n // num_threads, (thread + 1) * n // num_threads",
            "    mine = start",
            f"    for lo in range(start, stop, {block}):",
            f"        mine = _block(mine, lo, min(lo + {block}, stop), now, n, addresses, {passed})",
            "    counts[thread] = mine - start",
            "total = counts[0]",
            "for thread in range(1, num_threads):",
            "    start = thread * n // num_threads",
            "    for k in range(counts[thread]):",
            *_indented(gather, 2),
            *count,
            "return total",
        ]
        return [
            *self.functions(invalid, of_block),
            f"def serial(n, {given}):",
            *_indented(serial),
            f"def parallel(n, num_threads, {given}):",
            *_indented(self.with_memory("0", "n", parallel)),
        ]

    def reset(self) -> list[str]:
        """Begin episodes in some rows."""
        given = [f"given_{each.name}" for each in self.market.option_fields]
        told = [f"told_{as_word(key)}" for key in self.resets]
        options = [f"{name.removeprefix('given_')} = {name}[min(j, len({name}) - 1)]" for name in given]
        row = ["i = rows[j]", *options, *self.begin("i", "now"), *self.tell(self.resets, "told", "j", "i", "now")]
        return [
            f"def alone(n, rows, {', '.join(['addresses', *given, *told, *self.shared])}):",
            *_indented(self.with_memory("0", "n", ["for j in range(len(rows)):", *_indented(row)])),
        ]

    def observe(self) -> list[str]:
        """Write the observations of some rows."""
        return self._write("observe", self.market.observations, "seen")

    def mask(self) -> list[str]:
        """Write the masks of some rows."""
        return self._write("mask", self.market.masks, "mask")

    def _write(self, what: str, batch: Any, prefix: str) -> list[str]:
        """Have a row function write into arrays ``{prefix}{k}``, whose rows are those of ``rows``."""
        names = [f"{prefix}{k}" for k in range(len(batch.parts))]
        lines = []
        for name, part in zip(names, batch.parts, strict=True):
            if len(part.shape) == 1:
                lines.append(f"{name} = _rows({name}, 0, len(rows), {part.width})")
        row = ["i = rows[j]", self.call(what, "i", "now - began[i]", seen_at="j")]
        return [
            f"def alone(n, rows, {', '.join(['addresses', *names, *self.shared])}):",
            *_indented(self.with_memory("0", "n", [*lines, "for j in range(len(rows)):", *_indented(row)])),
        ]

    def follow(self) -> list[str]:
        """Work out what follows from the parameters of some rows."""
        return [
            f"def alone(n, rows, {', '.join(['addresses', *self.shared])}):",
            *_indented(self.with_memory("0", "n", ["for i in rows:", *_indented(self.derive("i"))])),
        ]

    def roll(self, parameters: Fields, action_width: int) -> list[str]:
        """Some steps of a rollout, serial and parallel; see ``Fused.rollout``."""
        width = self.market.observations.parts[0].width
        arrays = "all_seen, last, all_action, bases, strides, when, refused"
        given = ", ".join(["first", "steps", arrays, *self.shared, *parameters.names])
        invalid, of_block = self.invalid(False), self.block("reset")

        block, addressed = self.market.block, 7 + len(self.infos)  # memory, four results, infos, and two of ends

        def loop(bad: list[str], of_block: list[str]) -> list[str]:
            return [
                f"total, addresses = steps * start, _scratch({addressed}, _int64)",
                f"for array in range({addressed}):",
                "    addresses[array] = bases[array]",
                f"for lo in range(start, stop, {block}):",
                f"    hi = min(lo + {block}, stop)",
                "    for k in range(steps):",
                "        step, now = first + k, origin + k",
                "        action0, seen = all_action[step], all_seen[step]",
                f"        seen_rows = _read_only_rows(seen, lo, hi, {width})",
                f"        action_rows = _rows(action0, lo, hi, {action_width})",
                f"        _act(_policy, {parameters.put_together('{}')}, _unwritten, seen_rows, action_rows)",
                *_indented(bad, 2),
                "        if bad > 0:",
                "            if not 0 <= refused[thread, 0] <= step:",
                "                refused[thread, 0] = step",
                "            break",
                "        for array in range(1, len(addresses)):",
                "            addresses[array] = bases[array] + step * strides[array]",
                "        if step + 1 == len(all_seen):",
                "            addresses[4] = last",
                "        before = total",
                *_indented(of_block, 2),
                "        for e in range(before, total):",
                "            when[e] = step",
                "refused[thread, 1] = total - steps * start",
            ]

        called = ", ".join(["action0", *self.shared])
        call_invalid = ["bad = _invalid(lo, hi, n, addresses, action0)"]
        call_block = [f"total = _block(total, lo, hi, now, n, addresses, {called})"]
        slot = self.with_memory("0", "n", ["origin = now"], address="bases[0]")
        return [
            *self.functions(invalid, of_block),
            f"def serial(n, {given}):",
            *_indented([*slot, "start, stop, thread = 0, n, 0", *loop(invalid, of_block), "slot_now[0] += steps"]),
            f"def parallel(n, num_threads, {given}):",
            *_indented([*slot, "for thread in _prange(num_threads):"]),
            "        start, stop = thread * n // num_threads, (thread + 1) * n // num_threads",
            *_indented(loop(call_invalid, call_block), 2),
            "    slot_now[0] += steps",
        ]

    def compile(self, lines: Iterable[str]) -> dict[str, Any]:
        """The functions of some source, as plain ones."""
        source = "\n".join(lines) + "\n"
        exec(compile(source, f"<{self.market.name}>", "exec"), self.scope)
        return self.scope

    def spread(self) -> tuple[Any, Any]:
        """The functions "serial" and "parallel" of the source that has been read, compiled."""
        scope, name = self.scope, self.market.name
        for each in ("invalid", "block", "serial", "parallel"):
            scope[each].__qualname__ = f"{name}_{each}"
        scope["_invalid"], scope["_block"], serial = (
            compile_kernel(scope[each], allocates=False) for each in ("invalid", "block", "serial")
        )
        return serial, compile_kernel(scope["parallel"], parallel=True)


def _copy_row(to: str, to_row: str, source: str, row: str, shape: tuple[int, ...]) -> list[str]:
    """Lines that copy a row, item by item: a slice would bring all that Numba has for shapes that do not fit."""
    items = "".join(f", {axis}" for axis in "abcdefgh"[: len(shape)])
    lines = [
        f"{'    ' * depth}for {axis} in range({n}):"
        for depth, (axis, n) in enumerate(zip("abcdefgh", shape, strict=False))
    ]
    return [*lines, f"{'    ' * len(shape)}{to}[{to_row}{items}] = {source}[{row}{items}]"]


def _each_row(lines: Iterable[str]) -> list[str]:
    return ["for i in range(hi - lo):", *_indented(lines)]


def _indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]
