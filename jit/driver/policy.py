"""Decides whether a call that no entry matches may be compiled, by the stance, by the limits, and by what earlier calls have taught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from framejit import config, logs
from framejit._runtime import Entry
from framejit.driver import torch_stance
from framejit.driver.first_call import sizes_and_numbers, varying_between
from framejit.driver.history import Family, History, with_more
from framejit.driver.options import Options
from framejit.guards.dynamic import NONE, Dimensions
from framejit.guards.generators import HasEnded, SuspendedAt, SuspendedFunction, SuspendedSlot
from framejit.guards.kinds import AddressIs, Change, Equals, Guard
from framejit.guards.relations import Same
from framejit.guards.shapes import ShapesHold
from framejit.guards.source import Call, Index, Path, Source
from framejit.program.naming import short
from framejit.quick_dataclass import dataclass
from framejit.reporting import recompiles
from framejit.said import stance

FEW = 2
"""In a family that has learnt of one changing value, so many entries are enough to learn of another."""
LESSONS = 4
FAMILY_LESSONS = 16
"""The numbers of times that a resume function, and all of a family together, may learn that values change. After that, calls over the limit run uncompiled."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A call about which policy decides, and the function that is called.

    Attributes:
        name: the name of the function or module, for reports.
        module: the first argument of the call, if it is a module.
        resumed: whether the function is a resume function.
        entries: all entries of the function, the latest first.
        own: the entries that were made for the module of this call (all entries, if it has none), without the preferred ones, which no limit counts.
    """

    name: str
    call: Call
    options: Options
    history: History
    family: Family
    module: nn.Module | None
    resumed: bool
    entries: tuple[Entry, ...]
    own: tuple[Entry, ...]

    @property
    def is_compiled(self) -> bool:
        """Return whether there is compiled code for such calls: first steps of optimizers may have run uncompiled so far."""
        return any(entry not in self.history.first_steps for entry in self.own)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision whether to compile a call. If `limit` is empty, the call is compiled; otherwise `limit` names the limit that forbids it, and `over` has the
    entries that the limit counts.

    `cause`: why an entry is made although there are others; None for a first entry.
    """

    cause: Change | None = None
    limit: str = ""
    over: tuple[Entry, ...] = ()


def is_allowed(subject: Subject) -> bool:
    """Return whether the stance and `fail_on_recompile` let a call be compiled. Raises RecompileError."""
    here = stance.current()
    if here == "default":
        here = torch_stance.current()
    if here == "eager_on_recompile":
        return False
    if here == "eager_then_compile" and not subject.resumed and not subject.history.called:
        subject.history.called = True
        subject.history.first_call = sizes_and_numbers(subject.call)
        return False
    if here == "fail_on_recompile":
        raise recompiles.error(subject.name, "the stance is fail_on_recompile", subject.own, subject.call)
    if subject.is_compiled and (subject.options.config.fail_on_recompile or config.current().fail_on_recompile):
        raise recompiles.error(subject.name, "the option fail_on_recompile is set", subject.own, subject.call)
    return True


def decide(subject: Subject) -> Decision:
    """Decide by the limits whether a call is compiled. As a side effect, the function learns in which values its calls differ."""
    cause = None
    leaves = leaves_addresses(subject)
    if subject.own:
        cause, limit = (recompiles.cause_of(subject.own[0], subject.call), "") if leaves else cause_of_new_entry(subject)
        if cause is None:
            return Decision(None, limit, subject.own)
    if len(subject.entries) >= subject.options.config.accumulated_recompile_limit:
        return Decision(None, limit_text("accumulated_recompile_limit", subject.options.config), subject.entries)
    return Decision(cause if subject.is_compiled else None)


def note_varying(subject: Subject) -> bool:
    """Note the sizes and numbers in which a call differs from the calls that the entries were made for, so that they are symbols in the next entry.

    It is also noted if paths that led to one object before lead to several. Returns whether there is any new size or number.
    """
    found: dict[Path, Dimensions] = {}
    lines: dict[str, None] = {}
    if subject.history.first_call is not None:
        found |= varying_between(subject.history.first_call, sizes_and_numbers(subject.call))
        subject.history.first_call = None
    for guard in (guard for entry in subject.own for guard in entry.spec.guards):
        value = guard.source.fetch(subject.call)
        if isinstance(guard, Same) and not guard.check(value, subject.call):
            subject.history.aliases_vary = True
        found |= dict.fromkeys(flags_beside(subject, guard, value))
        if isinstance(guard, ShapesHold):
            found |= {path: None for path in guard.changed_numbers(subject.call) if path not in subject.history.varying}
        other = guard.varying(value)
        if other is not None and other.path() not in subject.history.varying:
            found[other.path()] = None  # untold: it becomes no symbol where the program looks at the items, or at the data
        for number in guard.differences(value):
            if number.what != "stride":
                path, is_size = guard.source.path(), number.what == "size"
                known = subject.history.varying.get(path, NONE)
                if known is None or (is_size and number.dim in known):
                    continue
                found[path] = with_more(found.get(path, NONE), frozenset({number.dim}) if is_size else None)
                lines[f"{number.place(guard.source.name_in_reports())}: {short(number.before)} -> {short(number.now)}"] = None
    if found:
        subject.history.vary(found)
    subject.history.share(subject.family, found)
    if not found:
        return False
    if lines and logs.enabled("dynamic"):
        logs.info("dynamic", f"symbolic from now on in {subject.name}, because they vary", "\n".join(lines))
    return True


def flags_beside(subject: Subject, guard: Guard, value: Any) -> Iterator[Path]:
    """The paths of a bool that another value was expected of, and of the other bools in the same list or tuple, which are likely to vary too."""
    if type(value) is not bool or not isinstance(guard, Equals) or type(guard.value) is not bool or guard.value == value:
        return
    path = guard.source.path()
    if path[-1][0] is Index:
        guards = (each for entry in subject.own for each in entry.spec.guards)
        paths = [each.source.path() for each in guards if isinstance(each, Equals) and type(each.value) is bool]
        yield from (other for other in (path, *paths) if other[:-1] == path[:-1] and other not in subject.history.varying)


def cause_of_new_entry(subject: Subject) -> tuple[Change | None, str]:
    """The cause of another entry, and an empty text; or None and the text of the limit that forbids another entry."""
    settings, own, call = subject.options.config, subject.own, subject.call
    recent = recent_entries(subject)
    if subject.family.lessons and len(recent) >= FEW and learn(subject, recent):
        return recompiles.cause_of(recent[0], call), ""
    if len(recent) < settings.recompile_limit:
        for entry in recent or own:
            cause = recompiles.cause_of(entry, call)
            if sum(made.spec.origin.cause == cause for made in own) < settings.cause_limit - 1:
                return cause, ""
    if leaves_sizes(subject, recent) or learn(subject, recent) or leaves_data(subject, recent) or leaves_generators(subject, recent):
        return recompiles.cause_of(recent[0], call), ""
    return None, limit_text("recompile_limit" if len(recent) >= settings.recompile_limit else "cause_limit", settings)


def recent_entries(subject: Subject) -> list[Entry]:
    """The function's own entries that were made since it last learnt something."""
    return [entry for entry in subject.own if entry.spec.origin.number >= subject.history.learnt_at]


def can_learn(subject: Subject) -> bool:
    """Return whether the function may still learn that a value changes."""
    return subject.resumed and not subject.options.fullgraph and subject.history.lessons < LESSONS and subject.family.lessons < FAMILY_LESSONS


def is_full(subject: Subject) -> bool:
    """Return whether a limit forbids another entry for any call. This is known without a look at the guards of the existing entries."""
    settings = subject.options.config
    if len(subject.entries) >= settings.accumulated_recompile_limit:
        return True
    return len(recent_entries(subject)) >= settings.recompile_limit and not can_learn(subject)


def learn(subject: Subject, entries: Sequence[Entry]) -> bool:
    """Note the values that keep most entries from serving the call, so that the next entry serves all of their values. Returns whether another entry should
    be made.

    Only resume functions learn this, that is, only about values that change while one call runs, in a loop. Otherwise a function that is called with many
    different sizes would be split at each operation. Values that have become symbolic are tried as symbols first.
    """
    history, family = subject.history, subject.family
    if not can_learn(subject):
        return False
    changes = [change for entry in entries for change in recompiles.explain.changed_contents(entry.spec.guards, subject.call)]
    counts = Counter(change.path for change in changes)
    changed = [change for change in changes if 2 * counts[change.path] > len(entries) and change.path not in history.changing]
    latest = max((entry.spec.origin.number for entry in entries), default=0)
    # What has become a symbol since the latest of these entries is no change to be noted yet: the next entry is the first to have it as one.
    found = [change for change in changed if history.varying_since.get(change.path, latest) <= latest]
    if not changed:
        return False
    history.learn(found)
    family.lessons += 1
    return True


def leaves_addresses(subject: Subject) -> bool:
    """Note that the next entries are not to depend on addresses of objects that are new in each call. Returns whether there is any that wasn't noted yet."""
    history = subject.history
    if subject.options.fullgraph:
        return False
    found = [Change(path, AddressIs) for path in history.addresses.varying(subject.options.config.recompile_limit) if path not in history.changing]
    if found:
        history.learn(found)
    return bool(found)


def leaves_data(subject: Subject, entries: Sequence[Entry]) -> bool:
    """Note that the next entries are not to depend on the data of tensors, if most entries don't serve the call because they do. Returns whether another entry
    should be made."""
    history = subject.history
    if subject.options.fullgraph or not history.reads_data:
        return False
    failing = [recompiles.first_failing(entry, subject.call) for entry in entries]
    if 2 * sum(guard is not None and any(source.is_data for source in guard.sources()) for guard in failing) <= len(entries):
        return False
    history.stop_reading_data()
    return True


def leaves_generators(subject: Subject, entries: Sequence[Entry]) -> bool:
    """Note that the next entries are to resume generators natively, if most entries don't serve the call because these wait elsewhere, or hold other values.
    Returns whether another entry should be made."""
    if subject.options.fullgraph or subject.history.lessons >= LESSONS:
        return False
    failing = [recompiles.first_failing(entry, subject.call) for entry in entries]
    found = {path: Change(path, SuspendedAt) for guard in failing if guard is not None and (path := path_of_generator(guard)) is not None}
    changed = [change for path, change in found.items() if path not in subject.history.changing]
    if not changed or 2 * sum(guard is not None and path_of_generator(guard) is not None for guard in failing) <= len(entries):
        return False
    subject.history.learn(changed)
    return True


def leaves_sizes(subject: Subject, entries: Sequence[Entry]) -> bool:
    """Let the limit count only entries made since a size or a number has last become symbolic, since those before it serve few calls. Returns whether that
    leaves any of these entries out. In a loop that a graph break interrupts, a resume function has an entry for each way through the loop, and for the first
    sizes these once more."""
    since = max(subject.history.varying_since.values(), default=0)
    if not can_learn(subject) or all(entry.spec.origin.number >= since for entry in entries):
        return False
    subject.history.count_from(since)
    return True


def path_of_generator(guard: Guard) -> Path | None:
    """The path of the generator whose place or values a guard is about; None if it isn't about a generator."""
    source: Source | None = guard.source
    if isinstance(guard, (SuspendedAt, HasEnded)):
        return guard.source.path()
    while source is not None and not isinstance(source, (SuspendedSlot, SuspendedFunction)):
        source = source.base
    return None if source is None or source.base is None else source.base.path()


def limit_text(name: str, settings: config.Config) -> str:
    """The name of an option that limits recompiles, with its value."""
    return f"{name} ({getattr(settings, name)})"
