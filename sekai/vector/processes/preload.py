"""What a fork server imports once, so that the workers it starts begin with it.

The server was started in an environment in which libraries load for one thread (see
``sekai.vector.processes.thread_limits``). They are loaded now, and the environment is given back for whatever else the
server will start.
"""

import os
import signal

import sekai.vector.processes.worker  # noqa: F401, which is what workers need
from sekai.vector.processes.thread_limits import ONE_THREAD_MARK

signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked while the server was started

for _name in os.environ.pop(ONE_THREAD_MARK, "").split():
    os.environ.pop(_name, None)
