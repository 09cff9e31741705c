#!/usr/bin/env python3
"""Times TorchSparse on a frame: submanifold 3x3x3 layers, the map kept and built anew.
    python3 torchsparse_peer.py --input street.h5 --channels 32,64,128,256
Needs torchsparse (built from source for the GPU at hand) and torch. Prints one JSON document."""
import frame_file
import torch
import torchsparse
from torchsparse import SparseTensor
from torchsparse import nn as spnn


def main():
    options = frame_file.arguments(__doc__)
    coordinates = torch.from_numpy(frame_file.read_coordinates(options.input, options.batch)).cuda()
    dtype = torch.float16 if options.dtype == "fp16" else torch.float32
    results = []
    with torch.no_grad():
        for channels in options.channels:
            features = torch.randn(len(coordinates), channels, device="cuda", dtype=dtype)
            layer = spnn.Conv3d(channels, channels, 3).cuda().to(dtype).eval()
            cached = SparseTensor(features, coordinates)
            layer(cached)
            for name, work in [("submanifold", lambda: layer(cached)),
                               ("submanifold, map included", lambda: layer(SparseTensor(features, coordinates)))]:
                results.append({"name": name, "dtype": options.dtype, "voxels": len(coordinates), "cin": channels,
                                "cout": channels, "kernel": "3x3x3",
                                "kernels_ms": frame_file.kernel_milliseconds(work),
                                **frame_file.milliseconds(work, options.repeat)})
    frame_file.close("torchsparse " + torchsparse.__version__, results)


if __name__ == "__main__":
    main()
