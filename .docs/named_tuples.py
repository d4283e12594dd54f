"""What griffe, which reads sources for the reference, lacks: how a named tuple is made."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Extension, Function, Parameter, ParameterKind, Parameters


class NamedTuples(Extension):
    """Gives classes of ``typing.NamedTuple`` their signature: the fields, with their defaults."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Add it to a class, once its fields have been read."""
        if [str(base) for base in cls.bases] != ["NamedTuple"]:
            return
        attributes = [each for each in cls.members.values() if isinstance(each, Attribute)]
        kind = ParameterKind.positional_or_keyword
        fields = [
            Parameter(each.name, annotation=each.annotation, kind=kind, default=each.value)
            for each in attributes
            if each.annotation is not None and "property" not in each.labels
        ]
        made = Parameters(Parameter("cls", kind=kind), *fields)
        init = Function("__init__", parameters=made, returns="None", parent=cls)
        cls.set_member("__init__", init)
        cls.labels.add("named tuple")
