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
from fairaudit.data.encode import DecodedRows
from fairaudit.data.public import share_inputs
from fairaudit.data.split import draw_split

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
    inputs = share_inputs(tabular.load_dataset(config), config).value
    encoded = inputs.encoder.encode(draw_split(inputs.dataset, config, 0))
    assert isinstance(encoded.train, DecodedRows)
    for start in range(0, len(encoded.train), 65_536):
        assert len(encoded.train[start : start + 65_536])
    sys.stdout.write(str(PEAK[0] // 1024))


if __name__ == "__main__":
    main()
