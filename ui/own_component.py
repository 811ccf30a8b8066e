"""What our Dash components have in common: how they tell Dash which properties they take."""

from __future__ import annotations

from typing import Any, ClassVar

from dash.development.base_component import Component


class OwnComponent(Component):
    """A component of ui/timeline. Dash reads the other attributes from the body of each subclass, not from here."""

    _properties: ClassVar[tuple[str, ...]] = ("id",)

    def __init__(self, id: str, **properties: Any) -> None:
        self._prop_names = list(self._properties)
        self._valid_wildcard_attributes: list[str] = []
        self.available_properties = list(self._properties)
        self.available_wildcard_properties: list[str] = []
        super().__init__(id=id, **properties)  # type: ignore[no-untyped-call]
