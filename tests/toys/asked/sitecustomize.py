"""Python imports this when a process starts: it notes every module that anything asks for."""

import os
import sys

LOG = os.environ["ASKED_LOG"]
SEEN = set()


def note(event, arguments):
    if event == "import" and arguments[0].partition(".")[0] not in SEEN:
        name = arguments[0].partition(".")[0]
        SEEN.add(name)
        descriptor = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)


sys.addaudithook(note)  # forked processes inherit it
