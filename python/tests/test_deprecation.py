"""Public names that end, by the rule of docs/Compatibility.md."""

import warnings

import pytest

import flashcore
from flashcore import deprecation


@pytest.fixture
def deprecate(monkeypatch):
    def add(name, since, instead):
        monkeypatch.setitem(deprecation.DEPRECATED, name, (since, instead))

    return add


def test_a_name_that_is_replaced_works_with_a_warning(deprecate):
    deprecate("flashcore.join", "0.2", "flashcore.merge")
    deprecate("flashcore.Failure", "0.2", "flashcore.Error")
    with pytest.warns(DeprecationWarning) as said:
        assert flashcore.join is flashcore.merge
        assert flashcore.Failure is flashcore.Error
    assert [str(each.message) for each in said] == [
        "flashcore: flashcore.join is deprecated since 0.2 and ends with 0.4: use flashcore.merge",
        "flashcore: flashcore.Failure is deprecated since 0.2 and ends with 0.4: use flashcore.Error",
    ]
    # Where the user's line is, so that Python shows it to those who can change it.
    assert {each.filename for each in said} == {__file__}


def test_a_parameter_that_is_renamed(deprecate):
    deprecate("flashcore.f(softmax_scale)", "0.9", "scale")

    @deprecation.keywords("flashcore.f")
    def f(q, *, scale=1.0):
        return q * scale

    assert f.__name__ == "f"
    with pytest.warns(DeprecationWarning, match=r"f\(softmax_scale\) .* ends with 0.11: use scale") as said:
        assert f(2, softmax_scale=3.0) == 6.0
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(2, scale=3.0) == 6.0
    with pytest.raises(TypeError, match="expects scale alone, but got softmax_scale, its old name, too"):
        f(2, scale=1.0, softmax_scale=3.0)


def test_replacements_exist():
    for name, (since, instead) in deprecation.DEPRECATED.items():
        assert name.startswith("flashcore."), name
        assert all(part.isdigit() for part in since.split(".")), since
        if "(" not in name:
            assert hasattr(flashcore, instead.removeprefix("flashcore."))
