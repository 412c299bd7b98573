"""score_mod and mask_mod written with PyTorch, against its own FlexAttention."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
flex = pytest.importorskip("torch.nn.attention.flex_attention", reason="needs PyTorch 2.5")

import flashcore
from torch_inputs import assert_same_as

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def make(device, heads=4, heads_kv=4, queries=50, keys=60, batch=2, dim=64):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(batch, h, s, dim, generator=generator).half().to(device)
        for h, s in ((heads, queries), (heads_kv, keys), (heads_kv, keys))
    ]


def compare(q, k, v, score_mod=None, mask_mod=None, **options):
    """With PyTorch's own, in double precision."""
    mask = None
    if mask_mod is not None:
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        mask = flex.create_block_mask(mask_mod, *sizes, device=q.device)
    expected = flex.flex_attention(q.double(), k.double(), v.double(), score_mod, mask, **options)
    actual = flashcore.flex_attention(q, k, v, score_mod, mask, **options)
    assert actual.dtype == q.dtype and actual.device == q.device
    assert_same_as(actual, expected)


def test_causal(device):
    compare(*make(device), mask_mod=lambda b, h, q, k: q >= k)


def test_joined_masks(device):
    window = flex.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k <= 20)
    compare(*make(device), mask_mod=flex.or_masks(window, lambda b, h, q, k: k < 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_alibi(device, dtype):
    slopes = torch.exp2(-torch.arange(1, 5, device=device).float() * 2).to(dtype)
    compare(*make(device), lambda s, b, h, q, k: s - slopes[h] * (q - k).abs())


def test_alibi_by_head(device):
    compare(
        *make(device),
        lambda s, b, h, q, k: s + torch.exp2(-((h + 1) * 8.0 / 4)) * (k - q),
    )


def test_relative_bias(device):
    table = torch.randn(10, 4, generator=torch.Generator().manual_seed(1)).to(device).T
    compare(*make(device), lambda s, b, h, q, k: s + table[h, torch.clamp(q - k, 0, 9)])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_documents(device, dtype):
    document = torch.randint(0, 3, (2, 60), generator=torch.Generator().manual_seed(2))
    document = document.sort().values.to(device, dtype)
    compare(*make(device), mask_mod=lambda b, h, q, k: document[b, q] == document[b, k])


def test_masks_of_bools(device):
    shown = torch.rand(50, 60, generator=torch.Generator().manual_seed(3)).to(device) > 0.5
    compare(*make(device), mask_mod=lambda b, h, q, k: shown[q, k] | (k == 0))


def test_numbers_in_tensors(device):
    cap, shift = torch.tensor(5.0, device=device), torch.tensor(7, device=device)

    def score_mod(score, batch, head, q_idx, kv_idx):
        capped = cap * torch.tanh(score / cap)
        return torch.where(q_idx + shift >= kv_idx, capped, -float("inf"))

    compare(*make(device), score_mod)


@pytest.mark.parametrize(
    "change",
    [
        torch.exp, torch.exp2, torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.floor,
        torch.ceil, torch.abs, torch.square, torch.neg,
        lambda x: torch.log(x.abs() + 1), lambda x: torch.log2(x.abs() + 1),
        lambda x: torch.sqrt(x.abs() + 1), lambda x: torch.rsqrt(x.abs() + 1),
        lambda x: torch.maximum(x, 2 * x), lambda x: torch.minimum(x, 2 * x),
        lambda x: torch.clamp(x, min=-0.5, max=0.5), lambda x: x.clamp(max=0.5),
        lambda x: torch.where((x > 0) & ~(x > 1), x, 0.0), lambda x: x // 0.5 + x % 0.5,
        lambda x: (x > 0).float() * x, lambda x: torch.pow(x, 2), lambda x: 1 / (x.abs() + 1),
        lambda x: torch.logical_and(x > 0, x < 1).to(torch.float32),
    ],
)  # fmt: skip
def test_functions(change):
    compare(*make("cpu", queries=20, keys=20), lambda s, b, h, q, k: change(s))


def test_grouped_heads_and_lse(device):
    q, k, v = make(device, heads_kv=2)
    scaled = {"scale": 0.25, "enable_gqa": True, "return_lse": True}
    o, lse = flashcore.flex_attention(q, k, v, lambda s, b, h, i, j: s * 0.5, **scaled)
    expected, expected_lse = flex.flex_attention(
        q.double(), k.double(), v.double(), lambda s, b, h, i, j: s * 0.5, **scaled
    )
    assert_same_as(o, expected)
    torch.testing.assert_close(lse.double(), expected_lse.double(), atol=4e-3, rtol=0)


def test_a_number_on_the_host_meets_tensors_anywhere(device):
    half = torch.tensor(0.5)
    compare(*make(device), lambda s, b, h, q, k: s * half)


def test_lists_of_blocks_alone(device):
    """PyTorch looks at the lists in compiled functions alone, so a mask_mod says the same there."""
    q, k, v = make(device, queries=256, keys=256)
    shown = torch.eye(2, device=device).bool().repeat_interleave(128, 0).repeat_interleave(128, 1)
    mask = flex.BlockMask.from_kv_blocks(*flashcore.block_lists(shown)[:4], BLOCK_SIZE=128)
    same = flex.create_block_mask(lambda b, h, q, k: q // 128 == k // 128, 1, 1, 256, 256, device=device)
    expected = flex.flex_attention(q.double(), k.double(), v.double(), block_mask=same)
    assert_same_as(flashcore.flex_attention(q, k, v, block_mask=mask), expected)


def test_arrays_of_every_head_in_blocks(device):
    """A mask of which nothing is proved, with full blocks and blocks that nobody sees."""
    q, k, v = make(device, queries=300, keys=400)
    shown = torch.rand(2, 4, 300, 400, generator=torch.Generator().manual_seed(3)).to(device) > 0.5
    shown[:, 1, :128, :256] = True
    shown[:, 2, 128:256] = False
    shown[1, :, :, 256:] = False
    compare(q, k, v, mask_mod=lambda b, h, q, k: shown[b, h, q, k])


def test_lists_are_those_of_a_block_mask(device):
    shown = torch.rand(1, 1, 300, 400, generator=torch.Generator().manual_seed(4)).to(device) > 0.5
    shown[..., :128, :128] = True
    shown[..., 128:256, 128:] = False
    theirs = flex.create_block_mask(lambda b, h, q, k: shown[b, h, q, k], 1, 1, 300, 400, device=device)
    ours = flashcore.block_lists(shown)
    for name in ("kv_num_blocks", "full_kv_num_blocks"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    for counts, indices in (("kv_num_blocks", "kv_indices"), ("full_kv_num_blocks", "full_kv_indices")):
        for row in range(3):
            count = getattr(ours, counts)[0, 0, row]
            mine, other = (getattr(lists, indices)[0, 0, row, :count] for lists in (ours, theirs))
            assert torch.equal(mine, other)


def test_gradients_are_refused(device):
    q, k, v = make(device)
    bias = torch.zeros(4, device=device, requires_grad=True)

    def score_mod(score, batch, head, q_idx, kv_idx):
        return score + bias[head]

    flashcore.torch.set_on_grad("error")
    try:
        with pytest.raises(flashcore.GradientError, match="has no backward pass"):
            flashcore.attention(q, k, v, score_mod=score_mod)
    finally:
        flashcore.torch.set_on_grad("backward")
    with torch.no_grad():
        flashcore.attention(q, k, v, score_mod=score_mod)


def test_errors_say_where():
    q, k, v = make("cpu")
    with pytest.raises(TypeError, match=r"test_torch_flex.py:\d+: expects an op .* got 'lgamma'"):
        flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.lgamma(s))
    with pytest.raises(TypeError, match=r"test_torch_flex.py:\d+: expects no branch"):
        flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s if i > j else 0.0)


def test_fake_tensors_have_the_shape_of_the_result():
    q, k, v = make("cpu")
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in (q, k, v)]
        o, lse = flashcore.attention(*fake, mask_mod=lambda b, h, i, j: i >= j, lse=True)
    assert o.shape == (*q.shape[:3], v.shape[3]) and lse.shape == q.shape[:3]


def test_auxiliary_results():
    flex = torch.nn.attention.flex_attention
    if not hasattr(flex, "AuxRequest"):
        pytest.skip("needs PyTorch with AuxRequest")
    q, k, v = make("cpu")
    o, lse = flashcore.flex_attention(q, k, v, return_lse=True, enable_gqa=True)
    result, aux = flashcore.flex_attention(
        q, k, v, return_aux=flex.AuxRequest(lse=True), enable_gqa=True
    )
    assert torch.equal(result, o) and torch.equal(aux.lse, lse) and aux.max_scores is None
    result, aux = flashcore.flex_attention(
        q, k, v, return_aux=flex.AuxRequest(), enable_gqa=True
    )
    torch.testing.assert_close(result, o, atol=2e-3, rtol=2e-3)
    assert aux == flex.AuxOutput()
    with pytest.raises(flashcore.UnsupportedError, match="asks for no max_scores"):
        asked = flex.AuxRequest(max_scores=True)
        flashcore.flex_attention(q, k, v, return_aux=asked, enable_gqa=True)
    with pytest.raises(ValueError, match="expects return_lse or return_aux, but got both"):
        asked = flex.AuxRequest(lse=True)
        flashcore.flex_attention(q, k, v, return_lse=True, return_aux=asked, enable_gqa=True)


def test_masks_of_other_sizes_are_refused():
    """As PyTorch refuses them."""
    q, k, v = make("cpu")
    queries, keys = q.shape[2], k.shape[2]
    create = torch.nn.attention.flex_attention.create_block_mask
    for sizes in ((queries + 1, keys), (queries, keys - 1)):
        mask = create(lambda b, h, i, j: i >= j, None, None, *sizes, device="cpu")
        wanted = f"expects block_mask for {queries} queries and {keys} keys, but got one that was"
        with pytest.raises(ValueError, match=wanted):
            flashcore.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)


def test_show_mask(device):
    document = torch.tensor([0, 0, 1, 1], device=device, dtype=torch.int64)
    text = flashcore.show_mask(lambda b, h, q, k: document[q] == document[k], 4, 4, 1, 1)
    assert text == "##..\n##..\n..##\n..##"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_graph_and_streams():
    q, k, v = make("cuda")
    document = torch.arange(60, device="cuda") // 20

    def call():
        return flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: document[i] == document[j])

    expected = call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = call()
    document.zero_()
    graph.replay()
    assert torch.equal(o, flashcore.attention(q, k, v))
    document.copy_(torch.arange(60) // 20)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    mod = lambda b, h, i, j: document[i] == document[j]  # noqa: E731
    o = flashcore.attention(q, k, v, mask_mod=mod, stream=stream)
    stream.synchronize()
    assert torch.equal(o, expected)
