"""The registry: from ids to specs, and through them to environments."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sekai.errors import EnvAlreadyRegistered, EnvNotFound, SekaiError
from sekai.registry.build import build_vec_env, make_env
from sekai.registry.entry_points import (
    EntryPoint,
    check_entry_point,
    describe_entry_point,
    import_module_of,
    load_entry_point,
)
from sekai.registry.listing import differences, id_order, not_found, source_of, versions_of
from sekai.registry.loading import Loading
from sekai.registry.plugins import find_plugins
from sekai.registry.specs import EnvSpec, WrapperLike, parse_id

if TYPE_CHECKING:
    from sekai.env import Env
    from sekai.vector import VecEnv


class EnvRegistry:
    """A set of specs by id. ``sekai.register``, ``sekai.make`` and so on belong to one that is always there.

    Args:
        plugin_group: Entry-point group of the installed packages that register into this registry, loaded at
            the first look-up that needs it. None for a registry without plug-ins.
    """

    def __init__(self, plugin_group: str | None = None) -> None:
        self._specs: dict[str, EnvSpec] = {}
        self._places: dict[str, str] = {}
        self._namespaces: dict[str, EntryPoint] = {}
        # The ids and namespaces that a loader or plug-in has registered.
        self._loaded: set[str] = set()
        # None once the plug-ins are loaded; what failed then is told to those who miss an id.
        self._plugin_group = plugin_group
        self._plugin_failures: dict[str, str] = {}
        self._loading = Loading()
        # Guards the dicts, for moments: nothing foreign runs while it is held.
        self._lock = threading.Lock()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The one that is always there is the one there, of another process too: with it ``sekai.make`` can be sent."""
        from sekai.registry import default_registry

        return (_default, ()) if self is default_registry else super().__reduce_ex__(protocol)

    def register(
        self,
        id: str,
        entry_point: EntryPoint | None = None,
        *,
        vector_entry_point: EntryPoint | None = None,
        max_episode_steps: int | None = None,
        kwargs: Mapping[str, Any] | None = None,
        additional_wrappers: Sequence[WrapperLike] = (),
        reward_threshold: float | None = None,
        nondeterministic: bool = False,
        force: bool = False,
    ) -> EnvSpec:
        """Make an environment known under an id. Nothing is imported.

        An id with only a ``vector_entry_point`` works with ``make`` and with every mode of ``make_vec`` too.

        An id can be registered once, unless ``force`` replaces what is there. Only between a plug-in (or the loader of
        a namespace) and code that registers by hand may the two meet: a plug-in that offers what is there already
        changes nothing, with a warning if its specs differ; and registering by hand exactly what a plug-in has
        registered, as calling its function does, changes nothing either. So the order of the two does not matter.

        Args:
            id: ``[namespace/]Name[-vN]``.
            entry_point: ``"module:attr"`` or a callable that returns an ``Env``.
            vector_entry_point: ``"module:attr"`` or a callable that returns a ``VecEnv``; called as
                ``vector_entry_point(num_envs, **kwargs)``, with ``num_envs`` by keyword where its signature names that,
                and with ``max_episode_steps=`` when there is a limit.
            max_episode_steps: The time limit, in steps.
            kwargs: Arguments of the entry points. Each environment that is built gets its own deep copy of them; a
                value that cannot be copied (an open connection) is shared.
            additional_wrappers: What to put around each environment, innermost first: ``WrapperSpec`` or
                callables.
            reward_threshold: The return from which the task counts as solved.
            nondeterministic: Whether episodes differ even when seed, options and actions are the same.
            force: Replace what is registered under the id, if anything is: for cells of a notebook that are run again.

        Returns:
            What is registered under the id now.

        Raises:
            EnvAlreadyRegistered: The id is taken: by hand, by the same plug-in, or with another spec.
            TypeError: An argument has the wrong type, or ``entry_point`` is a ``VecEnv`` class.
            ValueError: The id is malformed, there is no entry point, or the limit is below 1.
        """
        spec = EnvSpec(
            id=id,
            entry_point=entry_point,
            reward_threshold=reward_threshold,
            nondeterministic=nondeterministic,
            max_episode_steps=max_episode_steps,
            kwargs={} if kwargs is None else kwargs,  # type: ignore[arg-type]
            additional_wrappers=additional_wrappers,  # type: ignore[arg-type]
            vector_entry_point=vector_entry_point,
        ).resolve(None, {})  # with copies of the arguments
        spec.require_entry_point()
        caller = sys._getframe(1)
        with self._lock:
            first = self._specs.get(id)
            if first is None or force:
                self._specs[id] = spec
                self._places[id] = f"{caller.f_code.co_filename}:{caller.f_lineno}"
                self._loaded.discard(id)
                self._attribute(id)
                return spec
            place = self._places[id]
        here, there = differences(spec, first)
        if not self._may_meet_again(id, same=not here):
            raise EnvAlreadyRegistered(
                f"register: {id!r} is already registered as {source_of(first)} at {place}; "
                f"choose another version, or call deregister({id!r}) first, or pass force=True to replace it"
            )
        loader = self._loading.current
        if here and loader is not None:
            _warn(
                f"{loader.origin} offers {id!r} with {here}, but it is already registered "
                f"with {there} at {place}, which stays"
            )
        return first

    def __contains__(self, id: object) -> bool:
        """Whether exactly this id is registered, version included; looked for as ``spec`` looks for it.

        Raises:
            SekaiError: The loader of its namespace failed, so that nobody knows. (A plug-in that fails is a warning.)
        """
        try:
            self._search(id)  # type: ignore[arg-type]
        except (TypeError, ValueError):  # no id at all
            return False
        return id in self._specs

    def __iter__(self) -> Iterator[str]:
        """The ids, by namespace, name and version. Lazy namespaces are not loaded for it."""
        return iter([spec.id for spec in self.all_specs()])

    def __len__(self) -> int:
        """How many ids there are. Lazy namespaces are not loaded for it."""
        return len(self.all_specs())

    def deregister(self, id: str) -> None:
        """Forget an id.

        Raises:
            EnvNotFound: Nothing is registered under exactly this id.
        """
        self._search(id)
        with self._lock:
            if id not in self._specs:
                raise self._not_found(id)
            del self._specs[id], self._places[id]
            self._loaded.discard(id)

    def spec(self, id: str | EnvSpec) -> EnvSpec:
        """What is registered under an id.

        Without a version, the id means the unversioned environment, or else the highest version.

        Args:
            id: The id, or ``"module:Id"`` to import first the module that registers it; an ``EnvSpec`` is handed back.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            ImportError: The module cannot be imported.
            SekaiError: The loader of its namespace failed.
            ValueError: The id is malformed.
        """
        if isinstance(id, EnvSpec):
            return id
        if isinstance(id, str):
            id = import_module_of(id)
        self._search(id)
        with self._lock:
            if id in self._specs:
                return self._specs[id]
            versions = versions_of(id, self._specs.values())
            if versions and parse_id(id)[2] is None:
                return versions[-1]
            raise self._not_found(id)

    def all_specs(self) -> list[EnvSpec]:
        """Everything registered, by namespace, name and version. Lazy namespaces are not loaded for it."""
        self._load_plugins()
        with self._lock:
            return sorted(self._specs.values(), key=id_order)

    def make(self, id: str | EnvSpec, *, max_episode_steps: int | None = None, **kwargs: Any) -> Env[Any, Any]:
        """Build one environment, with ``OrderEnforcing``, its time limit and its wrappers around it.

        Args:
            id: An id, as ``spec`` takes it, or an ``EnvSpec`` that need not be registered.
            max_episode_steps: Replaces the time limit of the spec; -1 removes it.
            **kwargs: Arguments of the entry point, taking precedence over those of the spec.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            ImportError: The entry point, or the module of the id, cannot be imported.
            TypeError: The entry point returned something that is no ``Env`` or does not take an argument, or
                ``num_envs`` was given.
            ValueError: The limit is below 1 and not -1, or ``autoreset`` was given for a native environment.
        """
        return make_env(self.spec(id), max_episode_steps, kwargs)

    def make_vec(
        self,
        id: str | EnvSpec,
        num_envs: int = 1,
        *,
        vectorization_mode: str | None = None,
        vector_kwargs: Mapping[str, Any] | None = None,
        wrappers: Sequence[WrapperLike] = (),
        **env_kwargs: Any,
    ) -> VecEnv[Any, Any]:
        """Build ``num_envs`` of an environment that step together, as the sub-envs of a VecEnv.

        Args:
            id: An id, as ``spec`` takes it, or an ``EnvSpec`` that need not be registered.
            num_envs: How many, at least 1.
            vectorization_mode: "native" (or "vector_entry_point"): one object that simulates all of them with
                array operations; "sync": one after the other; "async": concurrently on an event loop;
                "proc": in worker processes; "ray": in shards on the machines of a Ray cluster. None:
                native when there is a vector entry point and no per-env wrappers, else sync.
            vector_kwargs: Arguments of the ``VecEnv`` class ("sync", "async", "proc"), e.g. ``{"autoreset": False}``,
                or further ones of the vector entry point ("native"); in "ray" those of ``RayVecEnv`` and of its shards.
            wrappers: What to put around each sub-env, innermost first.
            **env_kwargs: Arguments of the entry point, taking precedence over those of the spec;
                ``max_episode_steps`` replaces the time limit, -1 removes it.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            ImportError: The entry point, or the module of the id, cannot be imported.
            TypeError: An entry point returned something of the wrong kind, or does not take an argument.
            ValueError: The mode is unknown or does not suit the environment, an argument was given twice, or
                the entry point returned another number of sub-envs.
        """
        return build_vec_env(self.spec(id), num_envs, vectorization_mode, vector_kwargs, wrappers, env_kwargs)

    def register_namespace(self, name: str, loader: EntryPoint) -> None:
        """Put off the registration of a family of environments until one of them is looked up.

        Args:
            name: The namespace: the part before the slash of their ids.
            loader: ``"module:attr"`` or a callable, called without arguments at the first look-up of an id in
                the namespace; it registers them. If it fails, the next look-up tries again.

        Raises:
            TypeError: The loader is neither text nor callable.
            ValueError: The name is malformed, or the namespace has a loader already (with the exceptions that
                ``register`` makes for plug-ins).
        """
        if not isinstance(name, str) or parse_id(f"{name}/Name")[0] != name:
            raise ValueError(f"register_namespace: expected letters, digits, '_' and '-', got {name!r}")
        check_entry_point(loader, f"register_namespace({name!r}): loader")
        with self._lock:
            first = self._namespaces.get(name)
            if first is None:
                self._namespaces[name] = loader
                self._attribute(f"{name}/")
                return
        if not self._may_meet_again(f"{name}/", same=describe_entry_point(first) == describe_entry_point(loader)):
            raise ValueError(f"register_namespace: the namespace {name!r} already has a loader")

    def pprint_registry(self, *, disable_print: bool = False) -> str | None:
        """Print every id with its entry points, one a line, and the namespaces that are loaded when needed.

        Args:
            disable_print: Return the text instead.
        """
        specs = self.all_specs()
        width = max((len(spec.id) for spec in specs), default=0)
        lines = [f"{spec.id:<{width}}  {source_of(spec)}" for spec in specs]
        lines += [f"{name}/...  (loaded at the first look-up)" for name in self.lazy_namespaces()]
        text = "\n".join(lines) or "no environment is registered"
        if disable_print:
            return text
        print(text)
        return None

    def lazy_namespaces(self) -> list[str]:
        """The namespaces whose loader has not been called yet, sorted."""
        with self._lock:
            names = sorted(self._namespaces)
        return [name for name in names if not self._loading.is_done(f"{name}/")]

    # -- where a registration comes from -------------------------------------------------------------------

    def _attribute(self, name: str) -> None:
        """Note that an id, or a namespace with its slash, was registered just now."""
        loader = self._loading.current
        if loader is not None:
            loader.offered.add(name)
            self._loaded.add(name)

    def _may_meet_again(self, name: str, same: bool) -> bool:
        """Whether what is registered already may be registered again, to no effect; a loader may once."""
        loader = self._loading.current
        if loader is None:
            return same and name in self._loaded
        is_first = name not in loader.offered
        loader.offered.add(name)
        return is_first

    # -- loading -------------------------------------------------------------------------------------------

    def _search(self, id: str) -> None:
        """Load whatever may bring an id that is not registered yet."""
        namespace = parse_id(id)[0]
        load_namespace = partial(self._load_namespace, namespace)
        # The plug-ins may bring the namespace.
        for load in (load_namespace, self._load_plugins, load_namespace):
            if id in self._specs:
                return
            load()

    def _load_namespace(self, name: str | None) -> None:
        loader = None if name is None else self._namespaces.get(name)
        if loader is None:
            return
        origin = f"the loader of namespace {name!r}"
        try:
            self._loading.run(f"{name}/", origin, partial(load_entry_point, loader, origin))
        except (Exception, SystemExit) as error:
            raise SekaiError(f"{origin} failed: {type(error).__name__}: {error}") from error

    def _load_plugins(self) -> None:
        group = self._plugin_group
        if group is None or self._loading.is_running(group):
            return
        news = []
        with self._loading.attributed_to(group, group):
            for plugin in find_plugins(group):
                try:
                    self._loading.run(plugin.key, plugin.origin, plugin.load)
                # Whatever a foreign package raises, it must not take everybody else's environments away.
                except (Exception, SystemExit) as error:
                    failure = f"{plugin.origin} failed to load: {type(error).__name__}: {error}"
                    if self._plugin_failures.setdefault(plugin.key, failure) is failure:
                        news.append(failure)
        # An interrupt does not come here: the next look-up goes on with the plug-ins that are left.
        self._plugin_group = None
        for failure in news:
            _warn(failure)

    def _not_found(self, id: str) -> EnvNotFound:
        return not_found(id, list(self._specs.values()), list(self._namespaces), list(self._plugin_failures.values()))


def _warn(text: str) -> None:
    warnings.warn(f"sekai: {text}", RuntimeWarning, stacklevel=3)


def _default() -> EnvRegistry:
    from sekai.registry import default_registry

    return default_registry
