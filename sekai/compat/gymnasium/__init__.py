"""Markets in gymnasium, and gymnasium's environments here (extra ``gymnasium``, gymnasium 1.1 or later).

``to_gymnasium`` and ``to_gymnasium_vector`` give real ``gymnasium.Env`` and ``gymnasium.vector.VectorEnv`` objects;
``from_gymnasium`` and ``from_gymnasium_vector`` go the other way; ``register_with_gymnasium`` makes a registered market
known to ``gymnasium.make`` and ``gymnasium.make_vec``.

Raises:
    ImportError: gymnasium is not installed.
"""

from __future__ import annotations

try:
    from sekai.compat.gymnasium.env import GymnasiumEnv, to_gymnasium
except ImportError as error:
    raise ImportError(f'sekai.compat.gymnasium: {error}; pip install ".[gymnasium]" in the clone') from error

from sekai.compat.gymnasium.from_env import EnvFromGymnasium, from_gymnasium
from sekai.compat.gymnasium.from_vector import VecEnvFromGymnasium, from_gymnasium_vector
from sekai.compat.gymnasium.registration import register_with_gymnasium
from sekai.compat.gymnasium.spaces import from_gymnasium_space, to_gymnasium_space
from sekai.compat.gymnasium.vector import GymnasiumVectorEnv, to_gymnasium_vector

__all__ = [
    "EnvFromGymnasium",
    "GymnasiumEnv",
    "GymnasiumVectorEnv",
    "VecEnvFromGymnasium",
    "from_gymnasium",
    "from_gymnasium_space",
    "from_gymnasium_vector",
    "register_with_gymnasium",
    "to_gymnasium",
    "to_gymnasium_space",
    "to_gymnasium_vector",
]
