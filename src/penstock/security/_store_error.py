"""What is wrong with a key store, without the option that named it."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN_MAX = 5


class StoreError(ValueError):
    """A key store cannot be used; the text goes on after "the file ... ".

    The text may hold `{password}` and `{key_password}`, which stand for the names of those options.
    """

    @classmethod
    def number_of_keys(cls, aliases: Sequence[str]) -> StoreError:
        """Return the error for a store that has another number of private keys than one."""
        if not aliases:
            return cls("holds certificates only, and no private key")
        names = ", ".join(alias.replace("{", "(").replace("}", ")") for alias in sorted(aliases)[:_SHOWN_MAX])
        return cls(
            f"holds {len(aliases)} private keys (aliases: {names}), and it is not known which one the broker "
            "expects. Make a store of the one that is meant: keytool -importkeystore -srcalias ALIAS ..."
        )
