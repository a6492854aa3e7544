"""Run-time checks of shapes: arrays that functions take and return, against their jaxtyping annotations.

``conftest.py`` gives :func:`checked` to jaxtyping's import hook. It looks at arrays alone, at their shapes and dtypes:
other types are left to pyright, and what tests pass wrongly on purpose to the library's own refusals.
"""

import functools
import inspect
import re
import types
import typing

from jaxtyping import AbstractArray

rooms = {"on": False}  # whether the tests that run now are of a room whose shapes are checked


def checked(function):
    """The function, which raises where an array is not of the shape or dtype of its annotation."""
    signature = inspect.signature(function)
    hints = {name: hint for name, hint in function.__annotations__.items() if _arrays_of(hint)}

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if rooms["on"]:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                _check(name, value, hints.get(name))
        result = function(*args, **kwargs)
        if rooms["on"]:
            _check("what is returned", result, hints.get("return"))
        return result

    return wrapper


def _arrays_of(hint):
    """The array types that a hint allows, of any kind of array; none if it allows other things than arrays and None."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = [one for one in (typing.get_args(hint) if union else (hint,)) if one is not types.NoneType]
    if not all(isinstance(one, type) and issubclass(one, AbstractArray) for one in options):
        return ()
    if any(re.search(r"\w[-+*/]", one.dim_str) for one in options):  # sums of axes, which may not be known yet
        return ()
    return tuple(one.dtype[typing.Any, one.dim_str] for one in options)


def _check(name, value, hint):
    is_array = hasattr(value, "shape") and hasattr(value, "dtype")
    if is_array and hint is not None and not any(isinstance(value, one) for one in _arrays_of(hint)):
        raise TypeError(f"{name} is {value.dtype}{value.shape}, expected {hint}")
