"""Specs in order, as text, and close to an id that is not among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sekai.errors import EnvNotFound
from sekai.registry.entry_points import describe_entry_point
from sekai.registry.plugins import GROUP
from sekai.registry.specs import EnvSpec, parse_id

_MOST_SUGGESTIONS = 3


def id_order(spec: EnvSpec) -> tuple[str, str, int]:
    """Sort key: no namespace first, no version before version 0."""
    version = spec.version
    return spec.namespace or "", spec.name, -1 if version is None else version


def source_of(spec: EnvSpec) -> str:
    """The entry points of a spec as text."""
    parts = []
    if spec.entry_point is not None:
        parts.append(describe_entry_point(spec.entry_point))
    if spec.vector_entry_point is not None:
        parts.append(f"{describe_entry_point(spec.vector_entry_point)} (native)")
    return ", ".join(parts)


def differences(left: EnvSpec, right: EnvSpec) -> tuple[str, str]:
    """The fields in which two specs of one id differ, as texts for each of them; empty when they are the same.

    Callables are the same when their names are, and other values when their reprs are: a plug-in that runs again
    may make new lambdas, and the arguments may hold arrays, which ``==`` does not compare.
    """
    texts = [
        (
            f"{item.name}={_field_text(getattr(left, item.name))}",
            f"{item.name}={_field_text(getattr(right, item.name))}",
        )
        for item in fields(EnvSpec)
    ]
    pairs = [pair for pair in texts if pair[0] != pair[1]]
    return ", ".join(pair[0] for pair in pairs), ", ".join(pair[1] for pair in pairs)


def _field_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_field_text, value))})"
    return describe_entry_point(value) if callable(value) else str(value)


def versions_of(id: str, specs: Iterable[EnvSpec]) -> list[EnvSpec]:
    """The specs that differ from an id in nothing but the version, oldest first."""
    kin = parse_id(id)[:2]
    return sorted((spec for spec in specs if (spec.namespace, spec.name) == kin), key=id_order)


def not_found(id: str, specs: Sequence[EnvSpec], namespaces: Sequence[str], failures: Sequence[str]) -> EnvNotFound:
    """The error for an unknown id: what comes close, and what to do.

    Args:
        id: The id that was looked up.
        specs: What is registered.
        namespaces: The namespaces that have, or had, a loader.
        failures: The plug-ins that failed to load.
    """
    versions = versions_of(id, specs)
    suggestions = [spec.id for spec in versions] or _close_matches(id, specs)
    return EnvNotFound(id, suggestions, " ".join(_remedies(id, specs, versions, namespaces, failures)))


def _close_matches(id: str, specs: Sequence[EnvSpec]) -> list[str]:
    """Ids whose name is nearly the same; namespace, version and case do not count."""
    from difflib import get_close_matches

    by_name: dict[str, list[str]] = {}
    for spec in sorted(specs, key=id_order):
        by_name.setdefault(spec.name.lower(), []).append(spec.id)
    names = get_close_matches(parse_id(id)[1].lower(), by_name, n=_MOST_SUGGESTIONS)
    return [match for name in names for match in by_name[name]][:_MOST_SUGGESTIONS]


def _remedies(
    id: str,
    specs: Sequence[EnvSpec],
    versions: Sequence[EnvSpec],
    namespaces: Sequence[str],
    failures: Sequence[str],
) -> Iterable[str]:
    namespace = parse_id(id)[0]
    known = {spec.namespace for spec in specs} | set(namespaces)
    if versions:
        yield "These are the versions there are."
    elif namespace is not None and namespace not in known:
        others = ", ".join(sorted(repr(name) for name in known if name is not None)) or "none"
        yield f"The namespace {namespace!r} is unknown (there are: {others})."
    yield (
        f"Import the module that registers it, or name it too ('my_module:{id}'), or install the package that does "
        f"(found through the entry-point group {GROUP!r}), or call sekai.register({id!r}, ...); "
        f"`sekai list` shows what there is."
    )
    for failure in failures:
        yield f"It may be missing because {failure}."
