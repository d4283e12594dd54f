"""Environments by name: register a market under an id, build it by that id.

The functions belong to one ``EnvRegistry`` that is always there. Installed packages add to it through the
entry-point group ``sekai.envs``: each entry is a callable without arguments that calls ``sekai.register``. It
runs at the first look-up of an id that is not registered.
"""

from __future__ import annotations

from sekai.registry.catalogue import EnvRegistry
from sekai.registry.plugins import GROUP
from sekai.registry.specs import EnvSpec, WrapperSpec

default_registry = EnvRegistry(plugin_group=GROUP)

register = default_registry.register
deregister = default_registry.deregister
spec = default_registry.spec
all_specs = default_registry.all_specs
make = default_registry.make
make_vec = default_registry.make_vec
register_namespace = default_registry.register_namespace
pprint_registry = default_registry.pprint_registry

__all__ = [
    "EnvRegistry",
    "EnvSpec",
    "WrapperSpec",
    "all_specs",
    "default_registry",
    "deregister",
    "make",
    "make_vec",
    "pprint_registry",
    "register",
    "register_namespace",
    "spec",
]
