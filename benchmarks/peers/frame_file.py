"""What the peer scripts share: a frame's coordinates, timing, results.

A frame is a voxel file (HDF5 with `coordinates` [N, 4]: batch x y z, as `sparseconv voxelize -o` writes it) or plain
int32 [N, 3] cells. Times are CUDA events around each repetition after a warm-up; medians."""
import argparse
import json
import statistics

import numpy as np


def read_coordinates(path, batch=1):
    """int32 [N, 4]: batch, x, y, z, all at least 0. A frame of one entry is repeated, a cell further each time."""
    if path.endswith(".h5"):
        import h5py

        with h5py.File(path, "r") as file:
            coordinates = file["coordinates"][:].astype(np.int32)
    else:
        cells = np.fromfile(path, np.int32).reshape(-1, 3)
        coordinates = np.concatenate([np.zeros((len(cells), 1), np.int32), cells], 1)
    coordinates[:, 1:] -= coordinates[:, 1:].min(0)
    if batch > 1:
        assert coordinates[:, 0].max() == 0, "only a frame of one entry is repeated"
        coordinates = np.concatenate([coordinates + np.array([b, b, 0, 0], np.int32) for b in range(batch)])
    return coordinates


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input", required=True, help="voxel file or int32 [N, 3] cells")
    parser.add_argument("--channels", default="32,64,128,256")
    parser.add_argument("--dtype", default="fp16", choices=["fp32", "tf32", "fp16"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--no-network", action="store_true")
    parsed = parser.parse_args()
    parsed.channels = [int(c) for c in parsed.channels.split(",") if c]
    return parsed


def milliseconds(work, repeat, warmup=5):
    """Medians and minima of `work()` on the current stream, host costs included."""
    import torch

    for _ in range(warmup):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return {"time_ms": statistics.median(times), "min_ms": min(times)}


def kernel_milliseconds(work, repeat=5):
    """Sum of GPU kernel times of one `work()`: what would be left without any host cost."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(repeat):
            work()
        torch.cuda.synchronize()
    total = sum(getattr(e, "self_device_time_total", 0) for e in profiled.key_averages())
    return total / 1e3 / repeat


def close(engine, results):
    import torch

    print(json.dumps({"engine": engine, "device": torch.cuda.get_device_name(0), "results": results}))
