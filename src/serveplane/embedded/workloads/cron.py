"""Schedules as cron writes them: five fields, or a word such as `@daily`. Pure; times are moments of a time zone."""
import datetime
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass

WORDS = {"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *",
         "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LOOK_AHEAD = 5 * 366   # days; the 29th of February comes within these


class BadSchedule(Exception):
    """A schedule or time zone that cannot be read; the text says which part."""


@dataclass(frozen=True)
class Schedule:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool              # both kinds of days are restricted: one of them is enough
    zone: datetime.tzinfo

    def is_day(self, day: datetime.date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either else by_date and by_weekday

    def after(self, moment: datetime.datetime) -> Iterator[datetime.datetime]:
        """Every moment of the schedule after the given one, in order."""
        first = moment.astimezone(self.zone).date()
        for offset in range(LOOK_AHEAD):
            day = first + datetime.timedelta(days=offset)
            if self.is_day(day):
                yield from (time for time in self._times(day) if time > moment)

    def _times(self, day: datetime.date) -> Iterator[datetime.datetime]:
        for hour in self.hours:
            for minute in self.minutes:
                local = datetime.datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                time = local.astimezone(datetime.UTC)
                if time.astimezone(self.zone).replace(tzinfo=None) == local.replace(tzinfo=None):   # not skipped by summer time
                    yield time


def parse(text: str, zone: str = "") -> Schedule:
    """
    >>> schedule = parse("*/20 9-17 * * mon-fri")
    >>> schedule.minutes, sorted(schedule.weekdays), schedule.either
    ((0, 20, 40), [1, 2, 3, 4, 5], False)
    """
    fields = WORDS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise BadSchedule(f"{text!r} is not a schedule of five fields")
    weekdays = frozenset(_numbers(fields[4], 0, 6, WEEKDAYS, 0))   # no 7 for Sunday, unlike in other crons
    either = not _is_any(fields[2]) and not _is_any(fields[4])
    return Schedule(tuple(sorted(_numbers(fields[0], 0, 59))), tuple(sorted(_numbers(fields[1], 0, 23))),
                    frozenset(_numbers(fields[2], 1, 31)), frozenset(_numbers(fields[3], 1, 12, MONTHS, 1)), weekdays, either, _zone(zone))


def _is_any(field: str) -> bool:
    """Whether a field leaves every day open. In steps (`*/2`) it does not, in the eyes of the real controller."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name) if name else datetime.UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise BadSchedule(f"unknown time zone {name}") from problem


def _numbers(field: str, least: int, most: int, names: tuple[str, ...] = (), first: int = 0) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        start, _, end = span.partition("-")
        if span in ("*", "?"):
            low, high = least, most
        else:
            low = _number(start, names, first)
            high = _number(end, names, first) if end else most if step else low
        width = _number(step, (), 0) if step else 1
        if not least <= low <= high <= most or width < 1:
            raise BadSchedule(f"{part!r} is not within {least} to {most}")
        found.update(range(low, high + 1, width))
    return found


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + first
    if not text.isdecimal():
        raise BadSchedule(f"{text!r} is not a number")
    return int(text)
