#!/bin/sh
# The hook fairaudit-gate: `fairaudit gate` with what a gate needs. An environment of pre-commit's own would
# hold what trainings need, too: 1.6 GB. This one is made when the hook first runs, beside this file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$here/.gate-env

fail() {
    echo "Error: $1" >&2
    exit 2
}

install() {
    "$new/env/bin/python" -I -m pip install --quiet --disable-pip-version-check "$@" >&2 \
        || fail "the hook's packages cannot be installed"
}

if [ ! -d "$home" ]; then
    for python in python3 python3.11 python3.12 python3.13 python3.14 none; do
        if "$python" -I -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi
    done
    [ "$python" != none ] || fail "the hook needs Python 3.11 or newer, with venv, on the PATH"
    # Under another name until it is whole: two commits may come first at the same time.
    new=$(mktemp -d "$here/.gate-env-XXXXXX")
    trap 'rm -rf "$new"' EXIT
    "$python" -I -m venv "$new/env" >&2 || fail "no environment can be made in $here"
    install "pydantic>=2.10" "rich>=14.2" "typer>=0.29"
    install --no-deps "$here"
    "$python" -I -c 'import os, sys; os.rename(*sys.argv[1:])' "$new/env" "$home" 2>/dev/null || [ -d "$home" ] \
        || fail "$home cannot be made"
    rm -rf "$new"
    trap - EXIT
fi
exec "$home/bin/python" -I -m fairaudit gate "$@"
