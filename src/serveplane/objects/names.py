"""What may be a name: of objects, labels, ports, files. Names become paths, so these rules also guard the disk."""

import re

DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")

QUALIFIED_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
"""The sentences that the API server tells of the two, word by word, because scripts match on them."""


def is_dns_label(name: str) -> bool:
    return DNS_LABEL.fullmatch(name) is not None


def is_dns_1035_label(name: str) -> bool:
    """Names of Services: they begin with a letter."""
    return DNS_1035.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    return len(name) <= 253 and DNS_SUBDOMAIN.fullmatch(name) is not None


def is_qualified_name(name: str) -> bool:
    """A label or annotation key: `name` or `prefix/name`."""
    prefix, slash, rest = name.rpartition("/")
    return QUALIFIED.fullmatch(rest) is not None and (not slash or is_dns_subdomain(prefix))


def is_label_value(value: str) -> bool:
    return LABEL_VALUE.fullmatch(value) is not None


def is_safe_path_part(name: str) -> bool:
    """A name that stays inside its folder when it becomes a file."""
    return bool(name) and name not in (".", "..") and not any(letter in name for letter in "/\\\0")
