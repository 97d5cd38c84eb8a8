"""Addresses of data: ``s3://bucket/loans.parquet`` and others, and ``-``, the standard input.

An address is a path whose text keeps its two slashes. It holds no credentials: these lie in the
environment, where the libraries of each store look for them, and so no report can show them.
"""

import re
from pathlib import Path, PosixPath, WindowsPath
from typing import Final
from urllib.parse import unquote

from fairaudit.errors import ConfigError

STDIN: Final = "-"
STORES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
# With one slash, too: a `Path` made of an address has lost the other.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=[^/])|(file):/{1,3}(?=[^/])")
_HOST_END: Final = re.compile(r"[/?#]")
# Words in the name of a parameter that holds a credential.
_SECRETS: Final = re.compile(r"key|secret|token|passw|sig|cred", re.IGNORECASE)
_WEB: Final = ("http", "https", "ftp")
_OF_HADOOP: Final = ("hdfs", "viewfs")  # their hosts have ports, and their addresses no passwords


class Address(WindowsPath if Path is WindowsPath else PosixPath):  # type: ignore[misc]
    """Where data lie that are no file of this machine; as text it is what was typed."""

    def __str__(self) -> str:
        """The address with both slashes behind its scheme."""
        return _SCHEME.sub(lambda match: f"{match[1]}://", super().__str__(), count=1)

    @property
    def name(self) -> str:
        """The last part, without parameters; ``stdin`` of the standard input."""
        if super().__str__() == STDIN:
            return "stdin"
        name: str = super().name
        return name.partition("?")[0]


def located(value: object) -> object:
    """Run by pydantic before validation: an address becomes an :class:`Address`.

    A path, or what is neither path nor text, is returned as it is; ``file://`` leads to a path.

    Raises:
        ConfigError: The address is of a kind that is not read, with how to download it; or it
            holds credentials, or what may be a password.

    Example:
        >>> str(located("s3://bucket/loans.parquet")), located("s3://bucket/loans.parquet").name
        ('s3://bucket/loans.parquet', 'loans.parquet')
    """
    if not isinstance(value, str | Path) or isinstance(value, Address):
        return value
    text = str(value)
    if text == STDIN:
        return Address(STDIN)
    scheme = scheme_of(text)
    if not scheme:
        return value
    if scheme == "file":
        rest = text.partition(":")[2]
        if rest.lower().startswith("//localhost/"):  # this machine
            rest = rest[len("//localhost") :]
        return Path("/" + unquote(rest).lstrip("/"))
    rest = _SCHEME.sub("", text, count=1)
    _refuse_other_schemes(scheme, rest)
    parameters = [pair.partition("=")[0] for pair in rest.partition("?")[2].split("&")]
    login = _host(rest).rpartition("@")[0]
    # Before an @ an abfs address has its container and an s3 or gs address a key; LOGIN:PASSWORD is
    # a secret in any.
    is_secret = ":" in login or (login and scheme in ("s3", "gs", "gcs"))
    if is_secret or any(map(_SECRETS.search, parameters)):
        raise ConfigError(
            f"the {scheme} address holds credentials, which a report would repeat",
            hint="leave them to the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if _may_hold_password(scheme, rest):
        raise ConfigError(
            f"the {scheme} address may hold a password between : and @, which reports repeat",
            hint="leave it to the environment, as AWS_SECRET_ACCESS_KEY",
        )
    return Address(f"{scheme}://{rest}")


def _host(rest: str) -> str:
    """The host of an address, with what stands before an ``@``; ``rest``: behind ``scheme://``."""
    return _HOST_END.split(rest, maxsplit=1)[0]


def _may_hold_password(scheme: str, rest: str) -> bool:
    """Whether an address may hold a password with a slash, at which its host seems to end.

    It may where a ``:`` stands in the host and an ``@`` behind the host; a key of AWS may have a
    slash. The host of ``s3://bucket/a:b@c.csv`` has no ``:``, and ``a:b@c.csv`` is a file's name.
    """
    host = _host(rest)
    _, colon, port = host.rpartition("@")[2].partition(":")
    is_port = port.isdecimal() and scheme in _OF_HADOOP
    return bool(colon) and not is_port and "@" in rest[len(host) :]


def _refuse_other_schemes(scheme: str, rest: str) -> None:
    """Refuse an address of a kind that is not read; ``rest``: what follows its ``scheme://``.

    Raises:
        ConfigError: The scheme is none of those read. The hint says how to have the data here
            instead.
    """
    if scheme in _WEB:
        shown = "ADDRESS" if _may_hold_password(scheme, rest) else repr(_shown(scheme, rest))
        raise ConfigError(
            f"{scheme} addresses are not read", hint=f"download the file first: curl -LO {shown}"
        )
    if scheme == "hf":
        # An @ names a revision, but after a colon it may end a password.
        place = rest.rpartition("@")[2] if ":" in rest.partition("@")[0] else rest
        parts = place.partition("?")[0].removeprefix("datasets/").split("/")
        raise ConfigError(
            "hf addresses are not read",
            hint=f"download it first: hf download {'/'.join(parts[:2])} --repo-type dataset "
            f"--local-dir {parts[1] if len(parts) > 1 else parts[0]}",
        )
    if scheme not in STORES:
        raise ConfigError(
            f"{scheme} addresses are not read",
            hint="copy the data here; read are files, folders, s3://, gs://, abfs://, hdfs:// "
            "and -",
        )


def scheme_of(text: str) -> str:
    """The scheme of an address in lower case; "" of a path."""
    match = _SCHEME.match(text)
    return (match[1] or match[2]).lower() if match else ""


def _shown(scheme: str, rest: str) -> str:
    """A web address without what may be a credential in it: login and parameters."""
    host = _host(rest)
    path = re.split(r"[?#]", rest[len(host) :], maxsplit=1)[0]
    return f"{scheme}://{host.rpartition('@')[2]}{path}"
