"""What a description says a skill is *not* for.

"NOT for Visualforce pages" must not draw requests about Visualforce to the skill: the sentence is taken out of the
text that is matched and kept apart as negative scope.
"""

from __future__ import annotations

import re

LOOK = 20_000
"""Characters of a description that are searched; the longest of 12,610 public ones has 1,929."""
_START = re.compile(
    r"""(?:(?<=[.;:,!?)\]】。；，！？\n—–(|])[ \t]*|(?<=[ \t]-)[ \t]|(?<=\*\*)|\A[ \t]*
      |\b(?:and|or|but|is|are|skill)[ \t]+)
    (?P<clause>
        not[ ](?:intended[ ]|meant[ ]|suitable[ ]|designed[ ])?for\b
      | (?:do(?:es)?[ ]not|do(?:es)?n['’]t|don['’]t|never)[ ](?:use|trigger|invoke|activate|apply)\b
        (?=[ ]?:|[ ](?:this|it|the[ ]skill|for|when|if|in|on|to|as|with|unless|while|where|just)\b)
      | not[ ](?:to[ ]be[ ]used[ ])?(?:for|when)\b
      | (?:skip|avoid)[ ](?:this[ ](?:skill[ ])?)?(?:when|if|for)\b
      | avoid[ ]using\b
      | 不适用于 | 不要用于 | 请勿用于 | 不用于 | 不适合 | 勿用于
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_END = re.compile(r"[.!?](?=\s|\Z|[\"'”)]\s)|[。；！]|\n[ \t]*\n|\n(?=[ \t]*[-*•][ \t])|\n(?=[A-Z][\w ]{0,30}:)")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|incl|approx|no)\Z", re.IGNORECASE)


def negative_scope(description: str) -> tuple[str, ...]:
    """The passages that say what a skill is not for, each a verbatim part of `description`, in order."""
    text = description[:LOOK]
    found: list[str] = []
    at = 0
    while match := _START.search(text, at):
        start = match.start("clause")
        end = _end(text, match.end("clause"), inside=text.rfind("(", 0, start) > text.rfind(")", 0, start))
        passage = text[start:end].strip()
        if passage:
            found.append(passage)
        at = max(end, match.end())
    return tuple(found)


def _end(text: str, start: int, *, inside: bool) -> int:
    """Where the passage ends: with its sentence, or with the bracket it stands in."""
    if inside:
        depth = 0
        for bracket in re.finditer(r"[()]", text[start:]):
            depth += 1 if bracket[0] == "(" else -1
            if depth < 0:
                return start + bracket.start()
    list_follows = re.match(r"[^\n]{0,40}:[ \t]*\n(?:[ \t]*[-*•][^\n]*(?:\n|\Z))+", text[start:])
    if list_follows:
        return start + list_follows.end()
    at = start
    while stop := _END.search(text, at):
        before = text[max(start, stop.start() - 8) : stop.start()]
        if stop[0] == "." and _ABBREVIATION.search(before):
            at = stop.end()
            continue
        return stop.end()
    return len(text)


def without(description: str, excludes: tuple[str, ...]) -> str:
    """The description that is matched: without its negative scope."""
    text = description
    for passage in excludes:
        text = text.replace(passage, " ", 1)
    text = re.sub(r"\([ ,;]*\)", " ", text) if text != description else text
    return " ".join(text.split()) if text != description else description.strip()
