"""The snippets of docs/PyTorch.md run, in order."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("transformers", "5.19", reason="needs Transformers 5.19")

PAGE = Path(__file__).parents[2] / "docs" / "PyTorch.md"


@pytest.mark.filterwarnings("ignore:flashcore")
def test_snippets_run():
    if not PAGE.exists():
        pytest.skip("needs the source tree")
    names = {}
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(snippets) == 11
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)
        if "same = " in snippet:
            assert names["torch"].equal(names["same"], names["o"])
    assert all(len(text.generated_tokens) == 4 for text in names["texts"].values())
    assert names["w"].grad is not None and names["out"].shape == (1, 32, 4, 64)
