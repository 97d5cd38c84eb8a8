"""A server of S3 on this machine, and a wire to it that breaks."""

import contextlib
import socket
import threading


@contextlib.contextmanager
def breaking_wire(port, after):
    """The port of a wire to ``port``, which dies once so many bytes of answers have passed."""
    listener = socket.create_server(("127.0.0.1", 0))
    passed, lock, open_sockets = [0], threading.Lock(), {listener}

    def cut():
        for one in open_sockets.copy():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def carry(source, target, counts):
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if counts:
                    with lock:
                        passed[0] += len(piece)
                        is_over = passed[0] > after
                    if is_over:
                        return cut()
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                open_sockets.update((near, far))
                for wire in ((near, far, False), (far, near, True)):
                    threading.Thread(target=carry, args=wire, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        cut()
