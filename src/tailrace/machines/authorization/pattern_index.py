"""The index of the bindings of one resource type: by the pattern of names, and by principal and host.

An authorizer asks two questions, and each has its own table; both hold the same grants.

- Which patterns apply to the resource `orders-eu`? The LITERAL pattern of that name, the LITERAL pattern `*`, and the
  PREFIXED patterns that the name starts with. The prefixes are found in a dict by one look-up for each length that any
  prefix has, which is at most the length of the name, however many prefixes there are.
- Which patterns name the principal `User:alice` from host `10.0.0.7`? This answers whether alice may write to any
  topic at all, without reading the ACLs of other principals.

A grant has the operations that one pattern allows and denies to one holder, a principal on a host, as two bit fields.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from tailrace.base.invariant import invariant
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.host import canonical_host
from tailrace.machines.authorization.vocabulary import WILDCARD, PatternType, Permission

Holder = tuple[str, str]
"""A principal and the canonical form of a host, either of which may be a wildcard."""


class Grant:
    """The bindings of one pattern for one holder, and the operations that they allow and deny."""

    __slots__ = ("allowed", "bindings", "denied")

    def __init__(self) -> None:
        self.bindings: set[AclBinding] = set()
        self.allowed = 0
        self.denied = 0

    def add(self, binding: AclBinding) -> None:
        self.bindings.add(binding)
        if binding.permission is Permission.ALLOW:
            self.allowed |= 1 << binding.operation
        else:
            self.denied |= 1 << binding.operation

    def remove(self, binding: AclBinding) -> None:
        """Remove a binding; another one with the same operation may remain, if it spells the host differently."""
        remaining = self.bindings - {binding}
        self.bindings, self.allowed, self.denied = set(), 0, 0
        for other in remaining:
            self.add(other)


Pattern = dict[Holder, Grant]
"""What one pattern of names grants to each holder."""


class PrefixSet:
    """A set of prefixes that finds those of a name."""

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._lengths: Counter[int] = Counter()

    def add(self, prefix: str) -> None:
        if prefix not in self._prefixes:
            self._prefixes.add(prefix)
            self._lengths[len(prefix)] += 1

    def remove(self, prefix: str) -> None:
        self._prefixes.remove(prefix)
        self._lengths[len(prefix)] -= 1
        if not self._lengths[len(prefix)]:
            del self._lengths[len(prefix)]

    def of(self, name: str) -> Iterator[str]:
        """Yield the prefixes that a name starts with; the name itself counts."""
        for length in self._lengths:
            if length <= len(name) and (prefix := name[:length]) in self._prefixes:
                yield prefix

    def cover(self, name: str) -> bool:
        """Whether a name starts with one of the prefixes."""
        return next(self.of(name), None) is not None


class PatternIndex:
    """The bindings of one resource type."""

    def __init__(self) -> None:
        self._literal: dict[str, Pattern] = {}
        self._prefixed: dict[str, Pattern] = {}
        self._prefixes = PrefixSet()
        self._held: dict[Holder, dict[tuple[PatternType, str], Grant]] = {}

    def add(self, binding: AclBinding) -> None:
        """Add a binding that is not in the index."""
        patterns = self._patterns(binding.pattern_type)
        if (pattern := patterns.get(binding.name)) is None:
            pattern = patterns[binding.name] = {}
            if binding.pattern_type is PatternType.PREFIXED:
                self._prefixes.add(binding.name)
        holder = (binding.principal, canonical_host(binding.host))
        if (grant := pattern.get(holder)) is None:
            grant = pattern[holder] = Grant()
            self._held.setdefault(holder, {})[binding.pattern_type, binding.name] = grant
        grant.add(binding)

    def remove(self, binding: AclBinding) -> None:
        """Remove a binding that is in the index."""
        patterns = self._patterns(binding.pattern_type)
        holder = (binding.principal, canonical_host(binding.host))
        pattern = patterns[binding.name]
        grant = pattern[holder]
        grant.remove(binding)
        if grant.bindings:
            return
        del pattern[holder]
        held = self._held[holder]
        del held[binding.pattern_type, binding.name]
        if not held:
            del self._held[holder]
        if not pattern:
            del patterns[binding.name]
            if binding.pattern_type is PatternType.PREFIXED:
                self._prefixes.remove(binding.name)

    def applying_to(self, name: str) -> Iterator[Pattern]:
        """Yield the patterns that apply to the resource of a name; each has at least one binding."""
        if (literal := self._literal.get(name)) is not None:
            yield literal
        if name != WILDCARD and (wildcard := self.wildcard) is not None:
            yield wildcard
        for prefix in self._prefixes.of(name):
            yield self._prefixed[prefix]

    @property
    def wildcard(self) -> Pattern | None:
        """The pattern that applies to every resource, if it has bindings."""
        return self._literal.get(WILDCARD)

    def held_by(self, holders: Iterable[Holder]) -> Iterator[tuple[PatternType, str, Grant]]:
        """Yield the grants of some holders, with the type and the name of their patterns."""
        for holder in holders:
            for (pattern_type, name), grant in self._held.get(holder, {}).items():
                yield pattern_type, name, grant

    def _patterns(self, pattern_type: PatternType) -> dict[str, Pattern]:
        specific = pattern_type in {PatternType.LITERAL, PatternType.PREFIXED}
        invariant(specific, f"an ACL with the pattern type {pattern_type.name} was stored")
        return self._literal if pattern_type is PatternType.LITERAL else self._prefixed
