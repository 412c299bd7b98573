"""The tests of this folder need a GPU, and are skipped without one."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "/gpu/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch.compiler.reset()
    yield
    torch.cuda.synchronize()
