"""Read a table and write its records; says the largest anonymous memory in MiB.

Arguments: table, bytes of columns that are read at once, folder to write to.
"""

import re
import sys
import threading
import time
from pathlib import Path

from fairaudit.config.options import AuditConfig
from fairaudit.data import tabular
from fairaudit.data.encode import TableEncoder
from fairaudit.data.split import draw_split
from fairaudit.data.store import open_store, write_store

PEAK = [0]


def watch() -> None:
    while True:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
        PEAK[0] = max(PEAK[0], int(found[1]) if found else 0)
        time.sleep(0.005)


def main() -> None:
    path, budget, folder = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    threading.Thread(target=watch, daemon=True).start()
    tabular.IN_MEMORY_BYTES = budget
    config = AuditConfig(data=path, group=("sex",), label="approved", out=folder)
    write_store(folder / "x", tabular.load_dataset(config))
    store = open_store(folder / "x")
    encoded = TableEncoder(store.records, config.merge_rare, in_memory=0).encode(
        draw_split(store.rows, config, 0)
    )
    for start in range(0, len(encoded.train), 65_536):
        assert len(encoded.train[start : start + 65_536])
    sys.stdout.write(str(PEAK[0] // 1024))


if __name__ == "__main__":
    main()
