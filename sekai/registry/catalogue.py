"""The registry: from ids to specs, and through them to environments."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sekai.errors import EnvAlreadyRegistered, EnvNotFound, SekaiError
from sekai.registry.build import build_vec_env, make_env
from sekai.registry.entry_points import EntryPoint, check_entry_point, load_entry_point
from sekai.registry.listing import id_order, not_found, source_of, versions_of
from sekai.registry.plugins import load_plugins
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
        # A namespace that has been loaded keeps its name here, without a loader.
        self._namespaces: dict[str, EntryPoint | None] = {}
        # None once the plug-ins are loaded; what failed then is told to those who miss an id.
        self._plugin_group = plugin_group
        self._plugin_failures: list[str] = []
        self._loading: str | None = None
        # A thread that looks something up waits until another one has loaded the plug-ins.
        self._lock = threading.RLock()

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
    ) -> None:
        """Make an environment known under an id. Nothing is imported.

        An id with only a ``vector_entry_point`` works with ``make`` and with every mode of ``make_vec`` too.

        Args:
            id: ``[namespace/]Name[-vN]``.
            entry_point: ``"module:attr"`` or a callable that returns an ``Env``.
            vector_entry_point: ``"module:attr"`` or a callable that returns a ``VecEnv``; called as
                ``vector_entry_point(num_envs, **kwargs)``, with ``max_episode_steps=`` when there is a limit.
            max_episode_steps: The time limit, in steps.
            kwargs: Arguments of the entry points.
            additional_wrappers: What to put around each environment, innermost first: ``WrapperSpec`` or
                callables.
            reward_threshold: The return from which the task counts as solved.
            nondeterministic: Whether episodes differ even when seed, options and actions are the same.

        Raises:
            EnvAlreadyRegistered: The id is taken.
            TypeError: An argument has the wrong type.
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
        )
        caller = sys._getframe(1)
        with self._lock:
            first = self._specs.get(id)
            if first is None:
                self._specs[id] = spec
                self._places[id] = f"{caller.f_code.co_filename}:{caller.f_lineno}"
            elif self._loading is None:
                raise EnvAlreadyRegistered(
                    f"register: {id!r} is already registered as {source_of(first)} at {self._places[id]}; "
                    f"choose another version, or call deregister({id!r}) first"
                )
            # A plug-in meets an id that was registered by hand: the first stays, and the plug-in goes on.
            elif source_of(first) != source_of(spec):
                _warn(
                    f"{self._loading} offers {id!r} as {source_of(spec)}, but it is already registered "
                    f"as {source_of(first)} at {self._places[id]}, which stays"
                )

    def deregister(self, id: str) -> None:
        """Forget an id.

        Raises:
            EnvNotFound: Nothing is registered under exactly this id.
        """
        with self._lock:
            self._search(id)
            if id not in self._specs:
                raise self._not_found(id)
            del self._specs[id], self._places[id]

    def spec(self, id: str | EnvSpec) -> EnvSpec:
        """What is registered under an id.

        Without a version, the id means the unversioned environment, or else the highest version.

        Args:
            id: The id; an ``EnvSpec`` is handed back.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            SekaiError: The loader of its namespace failed.
            ValueError: The id is malformed.
        """
        if isinstance(id, EnvSpec):
            return id
        with self._lock:
            self._search(id)
            if id in self._specs:
                return self._specs[id]
            versions = versions_of(id, self._specs.values())
            if versions and parse_id(id)[2] is None:
                return versions[-1]
            raise self._not_found(id)

    def all_specs(self) -> list[EnvSpec]:
        """Everything registered, by namespace, name and version. Lazy namespaces are not loaded for it."""
        with self._lock:
            self._load_plugins()
            return sorted(self._specs.values(), key=id_order)

    def make(self, id: str | EnvSpec, *, max_episode_steps: int | None = None, **kwargs: Any) -> Env[Any, Any]:
        """Build one environment, with ``OrderEnforcing``, its time limit and its wrappers around it.

        Args:
            id: An id, or an ``EnvSpec`` that need not be registered.
            max_episode_steps: Replaces the time limit of the spec; -1 removes it.
            **kwargs: Arguments of the entry point, taking precedence over those of the spec.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            ImportError: The entry point cannot be imported.
            TypeError: The entry point returned something that is no ``Env``.
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
        """Build ``num_envs`` copies of an environment that step together.

        Args:
            id: An id, or an ``EnvSpec`` that need not be registered.
            num_envs: How many, at least 1.
            vectorization_mode: "native" (or "vector_entry_point"): one object that simulates all of them with
                array operations; "sync": one after the other; "async": concurrently on an event loop. None:
                native when there is a vector entry point and no per-env wrappers, else sync.
            vector_kwargs: Arguments of the ``VecEnv`` class ("sync", "async"), e.g. ``{"autoreset": False}``,
                or further ones of the vector entry point ("native").
            wrappers: What to put around each sub-environment, innermost first.
            **env_kwargs: Arguments of the entry point, taking precedence over those of the spec;
                ``max_episode_steps`` replaces the time limit, -1 removes it.

        Raises:
            EnvNotFound: Nothing is registered under the id.
            ImportError: The entry point cannot be imported.
            TypeError: An entry point returned something of the wrong kind.
            ValueError: The mode is unknown or does not suit the environment, an argument was given twice, or
                the entry point returned another number of sub-environments.
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
            ValueError: The name is malformed, or the namespace has a loader already.
        """
        if not isinstance(name, str) or parse_id(f"{name}/Name")[0] != name:
            raise ValueError(f"register_namespace: expected letters, digits, '_' and '-', got {name!r}")
        check_entry_point(loader, f"register_namespace({name!r}): loader")
        with self._lock:
            if name in self._namespaces:
                raise ValueError(f"register_namespace: the namespace {name!r} already has a loader")
            self._namespaces[name] = loader

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
        return sorted(name for name, loader in self._namespaces.items() if loader is not None)

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
        if name is None or loader is None:
            return
        origin = f"the loader of namespace {name!r}"
        self._namespaces[name] = None
        try:
            with self._loading_from(origin):
                load_entry_point(loader, origin)()
        except BaseException as error:
            self._namespaces[name] = loader
            if not isinstance(error, Exception):
                raise
            raise SekaiError(f"{origin} failed: {type(error).__name__}: {error}") from error

    def _load_plugins(self) -> None:
        group, self._plugin_group = self._plugin_group, None
        if group is None:
            return
        try:
            self._plugin_failures = load_plugins(group, self._loading_from)
        except BaseException:  # an interrupt: the next look-up begins again
            self._plugin_group = group
            raise
        for failure in self._plugin_failures:
            _warn(failure)

    @contextmanager
    def _loading_from(self, origin: str) -> Iterator[None]:
        outer, self._loading = self._loading, origin
        try:
            yield
        finally:
            self._loading = outer

    def _not_found(self, id: str) -> EnvNotFound:
        return not_found(id, list(self._specs.values()), list(self._namespaces), self._plugin_failures)


def _warn(text: str) -> None:
    warnings.warn(f"sekai: {text}", RuntimeWarning, stacklevel=3)
