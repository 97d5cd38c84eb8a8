"""``python -m fairaudit``."""

import sys

from fairaudit.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
