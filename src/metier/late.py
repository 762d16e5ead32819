"""Methods of dataclasses and compiled patterns that come into being when they are first used.

A cold `metier route` loads some seventy dataclasses and a hundred patterns: writing all their methods and compiling
them took 42 of its 180 ms, and few of them are used (decision 0004). So `dataclass` takes down the names; `__init__` is
written once a class turns out to be made often, and everything else by the standard library when it is first asked for.
`replace` asks for nothing; `pattern` is `re.compile`, later. Checkers see the originals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
    from re import compile as pattern
else:
    from dataclasses import MISSING, Field, FrozenInstanceError, fields
    from dataclasses import dataclass as _whole
    from dataclasses import replace as _replace

    FEW = 3
    """Objects of a class that are made without writing its `__init__`: writing takes 0.1 ms, filling in 0.005."""

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True):
        """`dataclasses.dataclass`, for classes that inherit no fields; its methods are written when first called."""

        def prepared(given):
            return _prepared(given, frozen, slots, eq)

        return prepared if cls is None else prepared(cls)

    def _prepared(cls, frozen, slots, eq):
        written = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
        names = [n for n, t in written.get("__annotations__", {}).items() if "ClassVar" not in str(t).partition("[")[0]]
        for name in names:
            if type(written.get(name)).__hash__ is None:  # one object that all would share: the original refuses it too
                raise ValueError(f"mutable default {type(written[name])} for field {name}: use default_factory")
        if slots:
            body = {k: v for k, v in written.items() if k not in names}
            body["__slots__"] = tuple(names)
            qualified = cls.__qualname__
            cls = type(cls)(cls.__name__, cls.__bases__, body)
            cls.__qualname__ = qualified
        else:
            for name in names:
                given = written.get(name)
                if isinstance(given, Field):
                    delattr(cls, name) if given.default is MISSING else setattr(cls, name, given.default)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _not_set, _not_deleted
            if slots:
                cls.__getstate__, cls.__setstate__ = _state, _restored
        late = ["__repr__"]
        if eq:
            late += ["__eq__", "__hash__"] if frozen else ["__eq__"]
            if not frozen and "__hash__" not in written:
                cls.__hash__ = None
        late = [name for name in late if name not in written]

        def rest():
            """The standard library's dataclass of the same source gives this one all but `__init__`."""
            whole = _whole(frozen=frozen, eq=eq)(type(cls.__name__, (), dict(written)))
            for name in (*late, *_DESCRIBED):
                if name in vars(whole):
                    setattr(cls, name, vars(whole)[name])

        if "__init__" not in written:
            cls._late = tuple(n for n in names if not isinstance(written.get(n), Field) or written[n].init)
            cls.__init__ = _filled(cls, names, written, frozen)
        for name in late:
            setattr(cls, name, _first(cls, name, rest))
        for name in _DESCRIBED:
            setattr(cls, name, _Told(name, rest))
        cls.__signature__ = _Told("__signature__", lambda: setattr(cls, "__signature__", _signature(cls, written)))
        return cls

    _DESCRIBED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
    _NEW = object()

    def _init(names, written, frozen):
        """`__init__` as the standard library writes it, without the other methods: 0.1 ms instead of 0.4."""
        known = {"_set": object.__setattr__, "_NEW": _NEW}
        head, body = ["self"], ["pass"]
        for name in names:
            given = written.get(name, MISSING)
            whole = isinstance(given, Field)
            default = given.default if whole else given
            value = name
            if whole and given.default_factory is not MISSING:
                known[f"_make_{name}"] = given.default_factory
                head += [f"{name}=_NEW"] if given.init else []
                value = f"_make_{name}() if {name} is _NEW else {name}" if given.init else f"_make_{name}()"
            elif default is not MISSING:
                known[f"_is_{name}"] = default
                head += [f"{name}=_is_{name}"] if not whole or given.init else []
                value = name if not whole or given.init else f"_is_{name}"
            elif whole and not given.init:
                continue
            else:
                head.append(name)
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if "__post_init__" in written:
            body.append("self.__post_init__()")
        made = {}
        exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(body), known, made)
        return made["__init__"]

    def _filled(cls, names, written, frozen):
        """An `__init__` for the first few objects; an odd call is left to the written one, which says what is odd."""
        made = 0
        needed = {n for n in cls._late if n not in written or _empty(written[n])}

        def __init__(self, *args, **named):
            nonlocal made
            made += 1
            given = dict(zip(cls._late, args, strict=False))
            few = made <= FEW and len(args) == len(given) and not given.keys() & named.keys()
            given.update(named)
            if not few or not needed <= given.keys() or not given.keys() <= set(cls._late):
                cls.__init__ = _init(names, written, frozen)
                return cls.__init__(self, *args, **named)
            for name in names:
                if name in given:
                    value = given[name]
                elif isinstance(default := written.get(name, MISSING), Field):
                    if _empty(default):
                        continue
                    value = default.default if default.default_factory is MISSING else default.default_factory()
                else:
                    value = default
                object.__setattr__(self, name, value)
            if "__post_init__" in written:
                self.__post_init__()
            return None

        return __init__

    def _empty(given):
        return isinstance(given, Field) and given.default is MISSING and given.default_factory is MISSING

    def replace(given, /, **changes):
        """`dataclasses.replace`, which asks a dataclass for all that it says of itself."""
        names = getattr(type(given), "_late", None)
        if names is None:
            return _replace(given, **changes)
        if not changes.keys() <= set(names):
            return _replace(given, **changes)  # says what is odd
        for name in names:
            if name not in changes:
                changes[name] = getattr(given, name)
        return type(given)(**changes)

    def _first(cls, name, write):
        def method(self, *args, **named):
            write()
            return getattr(cls, name)(self, *args, **named)

        return method

    class _Told:
        """What a dataclass says of itself, told when somebody asks."""

        def __init__(self, name, write):
            self.name, self.write = name, write

        def __get__(self, instance, owner):
            self.write()
            found = getattr(owner, self.name)
            if found is self:
                raise AttributeError(self.name)
            return found

    def _signature(cls, written):
        import inspect

        return inspect.signature(_whole(type(cls.__name__, (), dict(written))))

    def _not_set(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _not_deleted(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, f.name) for f in fields(self)]

    def _restored(self, state):
        for f, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, f.name, value)

    class pattern:
        """A compiled pattern, compiled when one of its methods is asked for."""

        def __init__(self, source, flags=0):
            self.__dict__["written"] = source, flags

        def __reduce__(self):
            return pattern, self.written

        def __getattr__(self, name):
            import re

            found = getattr(re.compile(*self.written), name)
            self.__dict__[name] = found
            return found


__all__ = ["dataclass", "pattern", "replace"]
