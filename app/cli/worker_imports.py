"""What the workers of a gateway share: a process imports this module once, and each worker is forked from it.

It is imported by the fork server of `multiprocessing` alone, see `workers.START`.
"""

import gc
import os
import signal
from types import FrameType
from typing import Final

from app.security.core_dumps import disable_core_dumps

_PROCESS: Final = os.getpid()


def _leave_to_workers(number: int, _frame: FrameType | None) -> None:
    """Ignore a signal that all processes of a service get: this one ends once all of the others have.

    A worker that has not begun to run gets it as though there were no handler.
    """
    if os.getpid() != _PROCESS:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


for _number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, _leave_to_workers)

# Nothing that is imported is garbage, and a collection would copy the pages that workers share.
gc.disable()
# It has the settings in its environment, as the workers have.
disable_core_dumps()

# The first two are imported by the gateways that use them: here, once for all workers.
import app.access.access_tokens  # noqa: E402
import app.console.pages  # noqa: E402
import app.main  # noqa: E402, F401

gc.freeze()
