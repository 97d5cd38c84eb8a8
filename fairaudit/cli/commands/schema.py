"""``fairaudit schema``."""


def schema() -> None:
    """Print the JSON schema of a report."""
    # Imported here: `--help` must not wait for pandas.
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.model import Report
    from fairaudit.report.to_json import schema_json

    print_stdout([schema_json(Report).rstrip("\n")])
