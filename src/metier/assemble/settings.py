"""Config from flags, environment, the user's file and the project's, each value with its source.

Precedence: flags > environment (`METIER_*`) > the user's `metier.toml` in the home > the project's > defaults. A cloned
repository may name skill paths, `k`, budgets and exclusions, nothing else: everything that could run a command, reach
a network, or make a skill trusted comes from the person. Secrets are no settings; they stay in the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from metier.errors import ConfigError
from metier.late import dataclass, replace
from metier.types import Config

FILE = "metier.toml"
FLAG = "flag"
"""Source of what the command line says."""
LIMIT = 1_000_000
"""Bytes of a settings file; a longer one is none that a person wrote."""
REFUSED_SHOWN = 20
"""Keys of a project's file that are refused by name; the rest is counted."""
HOSTS = ("generic", "cli", "mcp", "claude-code", "codex", "cursor", "opencode", "gemini", "openclaw", "qwen")


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set: its dotted key in `metier.toml`, the field of `Config`, and how a value is read."""

    key: str
    field: str
    read: Callable[[Any], Any]
    about: str
    project: bool = False
    """Whether a project's own file may set it."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "METIER_" + self.key.upper().replace(".", "_").replace("-", "_")


def _number(low: float, high: float, kind: type[int] | type[float] = float) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError
        number = kind(value)
        if not low <= number <= high:
            raise ValueError
        return number

    read.__doc__ = f"a {'whole ' if kind is int else ''}number from {low:g} to {high:g}"
    return read


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def maybe(value: Any) -> Any:
        return None if value in (None, "", "auto", "none") else read(value)

    maybe.__doc__ = f"{read.__doc__}, or auto"
    return maybe


def _choice(*values: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in values:
            raise ValueError
        return str(value)

    read.__doc__ = f"one of {', '.join(values)}"
    return read


def _text(value: Any) -> str:
    """a string"""
    if not isinstance(value, str):
        raise ValueError
    return value


def _switch(value: Any) -> bool:
    """true or false"""
    if isinstance(value, bool):
        return value
    spelled = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(value).lower() not in spelled:
        raise ValueError
    return spelled[str(value).lower()]


def _names(value: Any) -> tuple[str, ...]:
    """a list of strings (in the environment: separated by commas)"""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError
    return tuple(value)


def _paths(value: Any) -> tuple[str, ...]:
    """a list of paths (in the environment: separated by the platform's path separator)"""
    return tuple(value.split(os.pathsep)) if isinstance(value, str) else _names(value)


def _table(read: Callable[[Any], Any]) -> Callable[[Any], Mapping[str, Any]]:
    def table(value: Any) -> Mapping[str, Any]:
        if isinstance(value, str):
            value = dict(part.split("=", 1) for part in value.split(",") if part.strip())
        if not isinstance(value, Mapping):
            raise ValueError
        return {str(key): read(item) for key, item in value.items()}

    table.__doc__ = "a table of names and values (in the environment: name=value,name=value)"
    return table


SETTINGS: tuple[Setting, ...] = (
    Setting("skills", "skills", _paths, "more folders or JSONL files with skills", project=True),
    Setting("encoder", "encoder", _text, "minilm, a folder with model.onnx, st:NAME, openai:MODEL@URL, or hash"),
    Setting("alpha", "alpha", _optional(_number(0, 1)), "weight of the lexical channel; auto: the encoder's profile"),
    Setting("slate", "slate", _number(1, 1000, int), "candidates that reranker and gate look at"),
    Setting("k", "k", _number(1, 1000, int), "candidates printed or returned", project=True),
    Setting("cards", "cards", _number(0, 50, int), "cards shown to the agent, at most", project=True),
    Setting("loads", "loads", _number(0, 10, int), "bodies loaded for one request, at most", project=True),
    Setting("cover-loads", "cover_loads", _number(0, 10, int), "the same where several skills cover it", project=True),
    Setting("budget", "budget", _number(0, 1_000_000, int), "tokens of text for the agent, at most", project=True),
    Setting("exclude", "exclude", _names, "skills (name or id) never shown", project=True),
    Setting("host", "host", _choice(*HOSTS), "the agent that reads the text"),
    Setting("stack", "stack", _text, "agent, model and settings that outcomes belong to"),
    Setting("gate.eta", "eta", _number(-1, 1), "gain that a load must exceed"),
    Setting("gate.etas", "etas", _table(_number(-1, 1)), "the same per skill or family"),
    Setting("gate.explore", "explore", _number(0, 1), "share of loads withheld to learn from"),
    Setting("gate.seed", "seed", _number(0, 2**31, int), "seed of that choice"),
    Setting(
        "gate.cold-tokens", "cold_tokens", _number(0, 10_000_000, int), "larger bodies without evidence are skipped"
    ),
    Setting("gate.exchange", "exchange", _optional(_number(0, 100)), "success points per 1,000 tokens a load earns"),
    Setting("gate.stale", "stale", _choice("ignore", "discount"), "what outcomes of an older digest count for"),
    Setting("gate.families", "families", _table(_text), "family of a skill (name or id)"),
    Setting("gate.safety-critical", "safety_critical", _names, "skills that bypass the gain gate"),
    Setting("gate.allow", "allow", _names, "skills whose missing requirements you override"),
    Setting("rerank.on", "rerank", _switch, "whether the capability-graph reranker runs"),
    Setting("rerank.lambda", "lam", _optional(_number(0, 10)), "weight of the witness; auto: the fitted one"),
    Setting("llm.model", "llm", _text, "MODEL@URL of an OpenAI-compatible chat endpoint"),
    Setting("llm.deadline", "llm_deadline", _number(0, 600), "seconds a route waits for the model"),
    Setting("log.text", "log_text", _choice("full", "hash", "off"), "what the route log keeps of a request"),
    Setting("log.days", "log_days", _number(0, 36500, int), "days a route stays in the log"),
    Setting("rescan", "rescan", _number(0, 86400), "seconds between looks for added skills"),
    Setting("hook.deadline", "hook_deadline", _number(0.05, 60), "seconds within which the hook answers"),
    Setting("hook.serve", "hook_serve", _number(0, 604800), "idle seconds of a server that a session begins; 0: none"),
)


def load(
    *, flags: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[Config, tuple[str, ...]]:
    """The configuration that holds here, and warnings about keys that a project's file may not set.

    Raises `ConfigError`, naming key, value, source and what is allowed.
    """
    env = os.environ if env is None else env
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    home = placed(str(given.pop("home", "") or env.get("METIER_HOME") or _default_home()))
    config, sources, warnings = (
        Config(home=str(home)),
        {"home": "METIER_HOME" if env.get("METIER_HOME") else "default"},
        [],
    )
    layers: list[tuple[str, Mapping[str, Any]]] = []
    project = _project_file(cwd or Path.cwd(), home)
    if project is not None:
        allowed, refused = _of_project(project)
        layers.append((str(project), allowed))
        warnings += refused
    if _is_file(home / FILE):
        layers.append((str(home / FILE), _flat(_toml(home / FILE))))
    layers.append(("environment", {s.key: env[s.variable] for s in SETTINGS if env.get(s.variable)}))
    layers.append((FLAG, given))
    for source, values in layers:
        for key, value in values.items():
            setting = named(key, source)
            config = replace(config, **{setting.field: _read(setting, value, source)})
            sources[setting.field] = setting.variable if source == "environment" else source
    if "log_text" not in sources and config.host not in ("generic", "cli"):
        config = replace(config, log_text="hash")  # agents' requests are private by default (interfaces.md, Privacy)
    return replace(config, sources=sources), tuple(warnings)


def described(config: Config) -> list[tuple[str, Any, str]]:
    """(key, value, source) of every setting, for `metier config`."""
    rows: list[tuple[str, Any, str]] = [("home", config.home, config.sources.get("home", "default"))]
    return rows + [(s.key, getattr(config, s.field), config.sources.get(s.field, "default")) for s in SETTINGS]


def _default_home() -> str:
    import platformdirs

    return platformdirs.user_data_dir("metier", appauthor=False)


def _project_file(cwd: Path, home: Path) -> Path | None:
    """The nearest `metier.toml` from `cwd` up to the repository's root; the user's own file is none.

    Outside a repository only `cwd` counts: anybody may put one into /tmp.
    """
    root = _repository(cwd) or cwd
    for folder in (cwd, *cwd.parents):
        found = folder / FILE
        if folder != home and _is_file(found):
            return found
        if folder == root:
            return None
    return None


def _repository(folder: Path) -> Path | None:
    """The root of the repository that the folder lies in."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def placed(path: str | Path) -> Path:
    """The absolute path; `~` is the home folder, and `~name` of nobody known stays as it was written."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        return Path(path).absolute()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long for any file
        return False


def _read_file(path: Path) -> str:
    """The text, without waiting for what only looks like a file (a link into /proc), and no more than there may be."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LIMIT + 1) or b""  # None where there is nothing to read yet
    if len(data) > LIMIT:
        raise OSError(f"it has over {LIMIT:,} bytes")
    return data.decode("utf-8").replace("\r\n", "\n")


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        text = _read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); make it a readable UTF-8 file") from error
    try:
        return _parsed(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error}); mend that line") from error


def _parsed(text: str) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    import tomlkit

    return tomlkit.parse(text).unwrap()


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys; a table that is itself a setting's value (such as `gate.etas`) stays whole."""
    keys = {s.key for s in SETTINGS}
    flat: dict[str, Any] = {}
    for name, value in table.items():
        key = prefix + name.replace("_", "-")
        if isinstance(value, Mapping) and key not in keys and key.count(".") < 2:  # no setting lies deeper
            flat.update(_flat(value, key + "."))
        else:
            flat[key] = value
    return flat


def _of_project(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What a project's file sets, and warnings. It comes from strangers: what is wrong in it costs nobody an answer."""
    try:
        values = _flat(_toml(path))
    except ConfigError as error:
        return {}, [f"{error}; until then the project's file is ignored"]
    may = {s.key for s in SETTINGS if s.project}
    refused = [key for key in values if key not in may]
    kept: dict[str, Any] = {}
    warnings = [
        f"{path}: '{key}' is ignored: a project may set only {', '.join(sorted(may))}; put it into your own {FILE}"
        for key in refused[:REFUSED_SHOWN]
    ]
    if len(refused) > REFUSED_SHOWN:
        warnings.append(f"{path}: {len(refused) - REFUSED_SHOWN} more keys are ignored for the same reason")
    for key in sorted(may & values.keys()):
        try:
            kept[key] = _read(named(key), values[key], str(path))
        except ConfigError as error:
            warnings.append(f"{error}; it is ignored")
    if "skills" in kept:
        kept["skills"], outside = _confined(kept["skills"], path)
        warnings += outside
    return kept, warnings


def _confined(paths: Sequence[str], file: Path) -> tuple[list[str], list[str]]:
    """Those inside the file's repository, relative to the file; a warning for each other.

    A clone that names `/` would have the whole disk walked, and strangers' skills shown as this project's.
    """
    inside: list[str] = []
    warnings = []
    root = os.path.realpath(_repository(file.parent) or file.parent)
    for path in paths:
        named = Path(path)
        with suppress(RuntimeError):  # the ~ of a user whom nobody knows is a name like any other
            named = named.expanduser()
        place = str(file.parent / named)
        try:
            real = os.path.realpath(place)
        except (OSError, ValueError):  # a name that no file can have: said where it is looked for
            inside.append(place)
            continue
        if real == root or real.startswith(root.rstrip(os.sep) + os.sep):
            inside.append(place)
        else:
            warnings.append(
                f"{file}: 'skills' names {path!r}, which lies outside the repository, and is ignored; "
                f"put it into your own {FILE}, or run: metier index {path}"
            )
    return inside, warnings


def named(key: str, source: str = FLAG) -> Setting:
    """The setting of that key or field. Raises `ConfigError` with the nearest one."""
    for setting in SETTINGS:
        if key in (setting.key, setting.field):
            return setting
    import difflib

    near = difflib.get_close_matches(key, [s.key for s in SETTINGS], n=1)
    hint = f"did you mean '{near[0]}'?" if near else "`metier config` lists them all"
    raise ConfigError(f"{_where(source)}there is no setting '{key}'; {hint}")


def _read(setting: Setting, value: Any, source: str) -> Any:
    try:
        return setting.read(value)
    except (ValueError, TypeError, OverflowError) as error:
        what = (setting.read.__doc__ or "").strip()
        where = _where(setting.variable if source == "environment" else source)
        raise ConfigError(f"{where}'{setting.key}' is {value!r}; it takes {what}") from error


def _where(source: str) -> str:
    """What a message begins with; a flag stands in the line that was just typed."""
    return "" if source == FLAG else f"{source}: "
