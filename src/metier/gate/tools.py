"""What agents call the same tool: one table of aliases per host; `Bash`, `bash` and `shell` agree (methods 4.4).

A capability is a set of names. The general table holds names that mean the same everywhere; a host's own table comes
first, since hosts reuse words (`replace` edits a file in one and is nothing in another).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from metier.late import pattern

GENERAL: Mapping[str, tuple[str, ...]] = {
    "shell": (
        "bash", "shell", "sh", "zsh", "terminal", "exec", "execute", "command", "run_command", "execute_command",
        "exec_command", "run_shell_command", "local_shell", "shell_command", "run_terminal_cmd", "run_in_terminal",
        "bashoutput", "powershell", "computer_terminal",
    ),
    "read": ("read", "read_file", "readfile", "file_read", "view", "view_file", "open_file", "cat", "read_many_files"),
    "write": ("write", "write_file", "writefile", "file_write", "create", "create_file", "save_file"),
    "edit": (
        "edit", "edit_file", "multiedit", "multi_edit", "str_replace", "str_replace_editor", "apply_patch", "patch",
        "search_replace", "str_replace_based_edit_tool", "file_edit",
    ),
    "grep": ("grep", "ripgrep", "rg", "search_files", "search_file_content", "grep_search", "file_search"),
    "glob": ("glob", "find_files", "list", "ls", "list_dir", "list_directory", "list_files", "readfolder"),
    "fetch": ("webfetch", "web_fetch", "fetch", "fetch_url", "read_url", "url_fetch", "open_url"),
    "websearch": ("websearch", "web_search", "google_web_search", "search_web", "web"),
    "python": ("python", "python_repl", "code_interpreter", "execute_python", "run_python", "ipython"),
    "notebook": ("notebookedit", "notebook_edit", "notebookread", "notebook_read", "notebook", "edit_notebook"),
    "browser": ("browser", "browser_use", "computer_use", "playwright", "puppeteer"),
    "agent": ("task", "agent", "subagent", "delegate", "spawn_agent", "dispatch_agent"),
    "todo": ("todowrite", "todoread", "todo", "todo_write", "todo_read", "update_plan", "write_todos"),
    "ask": ("askuserquestion", "ask_user_question", "ask_user", "ask_followup_question", "request_user_input"),
    "skill": ("skill", "load_skill", "use_skill", "activate_skill"),
}  # fmt: skip
"""Capability → the names agents give it, lower case."""

HOSTS: Mapping[str, Mapping[str, str]] = {
    "gemini": {"replace": "edit", "save_memory": "todo"},
    "qwen": {"replace": "edit", "save_memory": "todo"},
    "cursor": {"codebase_search": "grep", "delete_file": "write", "reapply": "edit"},
    "opencode": {"patch": "edit", "list": "glob"},
    "openclaw": {"process": "shell", "nodes": "shell"},
    "codex": {"container.exec": "shell", "unified_exec": "shell", "view_image": "read"},
    "claude-code": {"killshell": "shell", "killbash": "shell", "exitplanmode": "todo"},
}
"""Host → what its own names mean there, before the general table is asked."""

_CAPABILITY = {name: capability for capability, names in GENERAL.items() for name in (capability, *names)}
_PATTERN = pattern(r"\(.*\)\s*\Z", re.DOTALL)


def plain(tool: str) -> str:
    """A tool's bare name: `Bash(git:*)` names the tool `bash`."""
    return _PATTERN.sub("", tool.strip()).strip().lower()


def capability(tool: str, host: str = "generic") -> str:
    """What a tool is for on that host; its bare name when no table knows it."""
    name = plain(tool)
    return HOSTS.get(host, {}).get(name) or _CAPABILITY.get(name) or _CAPABILITY.get(name.replace("-", "_")) or name


def fits(wanted: str, had: Iterable[str], host: str = "generic") -> str | None:
    """The agent's tool that answers to `wanted` (a name, an alias, or a glob such as `mcp__github__*`), or None."""
    pattern, need = plain(wanted), capability(wanted, host)
    starred = any(sign in pattern for sign in "*?[")
    for tool in sorted(had):
        if capability(tool, host) == need or (starred and fnmatchcase(plain(tool), pattern)):
            return tool
    return None
