"""Names from a file as safe text: column values are hostile input."""

NAME_LIMIT = 40  # characters of a name in a sentence or a cell
GROUP_LIMIT = 2 * NAME_LIMIT + len(" = ")  # characters of a :func:`group_text`
# Names of groups that say nothing without their column.
_BARE = frozenset({"true", "false", "yes", "no", "y", "n"})


def plain(name: str, limit: int = NAME_LIMIT) -> str:
    """One line of visible text, at most ``limit`` characters.

    Control characters, line breaks and marks that reverse or hide text become ``U+XXXX``.
    """
    shown = visible(name[: limit + 1])  # cut before it is escaped: a name can be megabytes long
    if len(name) > limit or len(shown) > limit:  # escaping makes a text longer
        return shown[: limit - 1] + "…"
    return shown


def group_text(grouping: str, group: str) -> str:
    """A group's name for a reader, after that of its column where it says nothing: ``sex = 0``."""
    says_nothing = group.lower() in _BARE or not any(map(str.isalpha, group))
    if group and grouping and says_nothing:
        return f"{plain(grouping)} = {plain(group)}"
    if len(group) > NAME_LIMIT:  # names of crossed groups often differ at their end alone
        half = NAME_LIMIT // 2
        return plain(f"{group[: half - 1]}…{group[-half:]}")
    return plain(group)


def visible(text: str) -> str:
    """The text in one line; characters that steer, hide or break text become ``U+XXXX``."""
    if not text.isprintable():
        shown = []
        for character in text:
            if not character.isprintable():
                character = f"U+{ord(character):04X}"
            shown.append(character)
        text = "".join(shown)
    return text.replace("##[", "## [")  # GitHub Actions runs ``##[..]`` as a command of a log
