#!/usr/bin/env python3
"""Times the 3 x 3 layers of ResNet-50 by cuDNN through torch, NHWC, its algorithms searched: the peer of
conv_cuda_bench. Medians of bursts in a CUDA graph.
    python3 torch_conv_peer.py [--batch 64] [--dtype fp16|bf16|tf32] [--rounds 15]
Needs torch."""
import argparse
import statistics

import torch

LAYERS = [(56, 64, 1, 1), (28, 128, 1, 1), (14, 256, 1, 1), (7, 512, 1, 1),
          (56, 128, 2, 1), (28, 256, 2, 1), (14, 512, 2, 1), (56, 256, 1, 256)]


def microseconds(work, rounds):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            work()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / 20)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", default="fp16", choices=["fp16", "bf16", "tf32"])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32}[options.dtype]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), torch.cuda.get_device_name())
    for operation, mask in (("forward", None), ("dgrad", [True, False, False]), ("wgrad", [False, True, False])):
        for side, channels, stride, groups in LAYERS:
            x = torch.randn(options.batch, channels, side, side, device="cuda", dtype=dtype)
            x = x.to(memory_format=torch.channels_last)
            w = torch.randn(channels, channels // groups, 3, 3, device="cuda", dtype=dtype)
            w = w.to(memory_format=torch.channels_last)
            y = torch.nn.functional.conv2d(x, w, None, stride, 1, 1, groups)
            if mask is None:
                work = lambda: torch.nn.functional.conv2d(x, w, None, stride, 1, 1, groups)
            else:
                work = lambda: torch.ops.aten.convolution_backward(
                    y, x, w, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], groups, mask)
            us = microseconds(work, options.rounds)
            flop = 2 * y.numel() * channels // groups * 9
            name = f"{operation} {side}x{channels} s{stride}" + (" depthwise" if groups > 1 else "")
            print(f"{name:26s} cuDNN {us:8.1f} us {flop / us * 1e-6:7.1f} T", flush=True)


if __name__ == "__main__":
    main()
