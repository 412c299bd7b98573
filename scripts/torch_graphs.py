"""Times of calls in CUDA graphs, for scripts that need PyTorch with a GPU."""
import statistics

ROUNDS, MILLISECONDS = 7, 40


def capture(function, count):
    """A graph of `count` calls; the function was called before, so that nothing is compiled in it."""
    import torch

    for _ in range(2):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            function()
    return graph


def time_graph(graph):
    """Microseconds of one replay."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def time_in_rotation(functions):
    """{name: median microseconds of a call} of {name: function}, in graphs that take turns."""
    graphs = {}
    for name, function in functions.items():
        once = time_graph(capture(function, 4)) / 4
        count = max(4, round(MILLISECONDS * 1e3 / once))
        graphs[name] = (capture(function, count), count)
    samples = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, (graph, count) in graphs.items():
            samples[name].append(time_graph(graph) / count)
    return {name: statistics.median(values) for name, values in samples.items()}
