"""Ages as kubectl shows them."""

import datetime

from serveplane.clock import parse_timestamp


def human(seconds: float) -> str:
    """
    >>> human(5), human(125), human(7300), human(90000), human(86400 * 400)
    ('5s', '2m5s', '121m', '25h', '400d')
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, unit: str, small: int, lesser: str) -> str:
    return f"{large}{unit}{small}{lesser}" if small else f"{large}{unit}"


def since(moment: str | None, now: datetime.datetime) -> str:
    if not moment:
        return "<unknown>"
    try:
        return human((now - parse_timestamp(moment)).total_seconds())
    except ValueError:
        return "<invalid>"
