"""What metier raises. Every message names the value, the place and the remedy, on one line.

MetierError
├── InputError          a path, file, flag or request that cannot be used as it is
│   └── NotFound        no skill, route or resource by that name; `choices` lists what there is
├── ConfigError         a setting with a wrong name or value
├── LibraryError        the skills could not be read at all (one bad file is a `Problem`, never this)
├── IndexProblem        an index that is missing, damaged, or made by another encoder or format
├── EncoderError        a model that cannot be opened or refused a text
├── LLMError            a language model that failed, or answered outside its schema
│   └── BudgetSpent     the stated budget of calls, tokens or money is used up
├── StoreError          the database could not be opened, read or written
├── BankError           an outcome that cannot be a row of the bank
├── ForbiddenPath       a resource outside its skill's folder
└── MissingExtra        a part that is not installed; the message says what to install
"""

from __future__ import annotations


class MetierError(Exception):
    """Anything metier itself reports; the CLI prints its message on one line and exits with 1."""


class InputError(MetierError):
    """A path, file, flag or request that cannot be used as it is."""


class NotFound(InputError):
    """Nothing by that name, or more than one; `choices` holds what there is to choose from."""

    def __init__(self, message: str, choices: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.choices = choices


class ConfigError(MetierError):
    """A setting with a wrong name or value."""


class LibraryError(MetierError):
    """The skills could not be read at all."""


class IndexProblem(MetierError):
    """An index that is missing, damaged, or made by another encoder or format."""


class EncoderError(MetierError):
    """A model that cannot be opened, or refused a text."""


class LLMError(MetierError):
    """A language model that failed, or answered outside its schema."""


class BudgetSpent(LLMError):
    """The stated budget of calls, tokens or money is used up; what was done is kept."""


class StoreError(MetierError):
    """The database could not be opened, read or written."""


class BankError(MetierError):
    """An outcome that cannot be a row of the bank."""


class ForbiddenPath(MetierError):
    """A resource outside its skill's folder."""


class MissingExtra(MetierError):
    """A part of metier that is not installed."""

    def __init__(self, extra: str, needs: str, what: str) -> None:
        super().__init__(f"{what} needs {needs}, which is not installed; run: pip install 'metier[{extra}]'")
        self.extra = extra
