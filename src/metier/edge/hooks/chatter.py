"""Prompts that plainly need no skill, told apart without an index, a model, or a heavy import."""

from __future__ import annotations

import re

_ARITHMETIC = re.compile(
    r"(?:what(?:'s| is)|calculate|compute|how much is)?[\s\d.,+\-*/×÷^%()=]*\d[\s\d.,+\-*/×÷^%()=?]*", re.I
)
_CHATTER = frozenset(
    """hi|hello|hey|hey there|hi there|good morning|good evening|good night|thanks|thank you|thanks a lot|thank you so
    much|thx|ty|great thanks|ok|okay|ok thanks|k|yes|yep|yeah|yes please|no|nope|no thanks|sure|continue|go on|go
    ahead|proceed|carry on|keep going|next|done|stop|wait|never mind|nevermind|cool|nice|great|perfect|awesome|good
    job|well done|lgtm|looks good|sounds good|looks good to me|i see|got it|understood|exactly|bye|goodbye|see you|how
    are you|who are you|what can you do|try again|retry|undo|undo that|please continue|do it
    |danke|danke schön|vielen dank|ja|nein|weiter|hallo|guten morgen|tschüss|passt|merci|oui|non|bonjour|salut|d'accord
    |gracias|sí|si|vale|hola|continúa|adiós|obrigado|obrigada|olá|sim|não|grazie|ciao|va bene|dank je|tak|dziękuję|cześć
    |спасибо|да|нет|привет|дальше|продолжай|谢谢|好的|好|继续|你好|是的|是|不|不用|ありがとう|はい|いいえ|こんにちは|続けて
    |감사합니다|네|아니요|안녕하세요|계속""".replace("\n", " ").split("|")
)  # fmt: skip
SHORT = 80
"""Characters of a prompt that can be small talk or a sum."""
_BREAKS = re.compile(r"[,;:.!?…。！？、，]+")
_MARKS = " ~*'\"()-"
_CHATTER = frozenset(" ".join(said.split()) for said in _CHATTER)


def needless(prompt: str) -> bool:
    """Whether a prompt plainly needs no skill: nothing, a sum, a greeting, or a command that the host itself expands.

    Only what can be told without an index; the floor of the first stage (methods 1.13) judges everything else.
    """
    said = " ".join(prompt.split())
    if not any(c.isalnum() for c in said) or said.startswith("/"):
        return True
    pieces = [piece for part in _BREAKS.split(said.lower()) if (piece := part.strip(_MARKS))]
    if len(said) <= SHORT and all(piece in _CHATTER for piece in pieces):
        return True
    return len(said) <= SHORT and _ARITHMETIC.fullmatch(said) is not None
