"""``fairaudit schema``."""


def schema() -> None:
    """Print the JSON schema of a report."""
    # Imported here: `--help` must not wait for pandas.
    from fairaudit.cli.streams import answer
    from fairaudit.report.to_json import schema_json

    answer([schema_json().rstrip("\n")])
