"""Edits of a report's JSON: every one that a hand, a merge or a broken disk makes of one place."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

from fairaudit.report.model import VOLATILE


def places(tree, path=()):
    """The path of every node below the root; volatile fields are judged by nobody."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, node in items:
        if path == () and key in VOLATILE:
            continue
        yield (*path, key)
        if isinstance(node, dict | list):
            yield from places(node, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def replacements(node) -> Iterator[object]:
    """Other values of one leaf: nothing, none of it, its opposite, more, less, something near."""
    if isinstance(node, bool):
        yield not node
    elif isinstance(node, int | float):
        yield from (0, -node, node * 10, node / 10, node + 1, node - 1, node * 1.01, 1e300, None)
        yield from (type(node)(node * 100), int(node))
    elif isinstance(node, str):
        yield from ("", node + "x", "none", "established", "complete", "pass", None)
    elif node is None:
        yield from (0.0, 1.0, "x")
    else:
        yield type(node)()


def edits(tree) -> Iterator[tuple[str, tuple, Callable[[], dict]]]:
    """Every edit of a report: what is done, where, and what makes the edited copy; the tree itself stays."""
    for path in places(tree):
        yield from edits_at(tree, path)


def edits_at(tree, path):
    """Every edit of one place."""
    parent, key, node = at(tree, path[:-1]), path[-1], at(tree, path)
    for value in replacements(node):
        if type(value) is not type(node) or value != node:
            yield "replaced", path, partial(_with, tree, path, value)
    yield "deleted", path, partial(_without, tree, path)
    if isinstance(parent, list):
        yield "doubled", path, partial(_with, tree, path[:-1], [*parent[: key + 1], *parent[key:]])
        if key and parent[key] != parent[key - 1]:
            swapped = [*parent[: key - 1], parent[key], parent[key - 1], *parent[key + 1 :]]
            yield "swapped", path, partial(_with, tree, path[:-1], swapped)
        return
    names = sorted(parent)
    other = names[names.index(key) - 1]
    if parent[other] != node:
        yield "swapped", path, partial(_with, tree, path[:-1], {**parent, key: parent[other], other: node})


def edited_at_random(rng, tree):
    """The tree after one to four edits, and where they were."""
    found = []
    for _ in range(rng.randrange(1, 5)):
        path = rng.choice(list(places(tree)))
        _, path, make = rng.choice(list(edits_at(tree, path)))
        tree, found = make(), [*found, path]
    return tree, found


def _with(tree, path, value):
    if not path:
        return value
    made = _along(tree, path)
    at(made, path[:-1])[path[-1]] = value
    return made


def _without(tree, path):
    made = _along(tree, path)
    del at(made, path[:-1])[path[-1]]
    return made


def _along(tree, path):
    """A copy of the tree that shares all but the nodes on the path."""
    made = copy.copy(tree)
    node = made
    for key in path[:-1]:
        node[key] = copy.copy(node[key])
        node = node[key]
    return made
