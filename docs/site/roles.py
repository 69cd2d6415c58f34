"""Docstrings name other objects by Sphinx' roles, as :class:`Solution`; the site shows and links them."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?([\w.]+)`")


class Roles(griffe.Extension):
    """Turn roles into code, with a link where the whole path is given."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object once it was read."""
        if obj.docstring:
            text = ROLE.sub(self._shown, obj.docstring.value)
            # Proj_[l,u](s) is no link. Indented lines are shown as they are.
            obj.docstring.value = re.sub(
                r"^(?!    ).*$", lambda line: line[0].replace("](", "]\\("), text, flags=re.MULTILINE
            )

    @staticmethod
    def _shown(found: re.Match[str]) -> str:
        path = found[1]
        if not path.startswith("copter."):
            return f"`{path}`"
        # Optional: what has no docstring has no entry. That it exists is tested (tests/test_docs.py).
        return f'<autoref identifier="{path}" optional><code>{path}</code></autoref>'
