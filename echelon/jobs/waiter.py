"""The supervisor of a queued run while it waits: ``python -m echelon.jobs.waiter RUN [CRASHES STEP]``.

It becomes the supervisor of the run's next session once a slot is free, and imports what that needs only then.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from echelon.jobs.tickets import WAITER, Queue

POLL_S = 1.0
"""Time between looks at the queue; longer where many runs wait [s]."""


def main(argv: Sequence[str]) -> int:
    """Wait for a slot and supervise a session; start again where the session was interrupted."""
    folder, earlier = Path(argv[0]), map(int, argv[1:3])
    queue = Queue(folder.parent)
    ticket, handle = queue.ticket(folder.name), queue.claim(folder.name)
    if ticket is None or handle is None:
        return 0
    found = queue.wait(ticket, handle, POLL_S)
    if found is None:
        return 0
    from echelon.jobs.queue import Crashes, supervise_next_session

    crashes = supervise_next_session(queue, ticket, *found, Crashes(*earlier))
    if crashes is not None:
        # a new process releases the slots, the locks and the memory of this one
        os.execv(WAITER[0], [*WAITER, str(folder), *map(str, crashes)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
