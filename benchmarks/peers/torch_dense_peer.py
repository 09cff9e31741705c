#!/usr/bin/env python3
"""Times torch's dense 3D convolution on the part of a frame that fits a grid: what sparsity is worth there.
    python3 torch_dense_peer.py --input street.h5 --channels 32,64 --dtype fp16
The grid is the 128 x 128 x 32 cells that hold the most voxels; `voxels` are those inside. Needs torch."""
import frame_file
import numpy as np
import torch

GRID = (128, 128, 32)


def fullest_part(cells):
    corners, counts = np.unique(cells // np.array(GRID), axis=0, return_counts=True)
    corner = corners[counts.argmax()]
    return cells[(cells // np.array(GRID) == corner).all(1)] - corner * np.array(GRID)


def main():
    options = frame_file.arguments(__doc__)
    cells = fullest_part(frame_file.read_coordinates(options.input)[:, 1:])
    dtype = torch.float16 if options.dtype == "fp16" else torch.float32
    torch.backends.cudnn.allow_tf32 = options.dtype == "tf32"
    torch.backends.cudnn.benchmark = True
    x, y, z = torch.from_numpy(cells).long().cuda().unbind(1)
    results = []
    with torch.no_grad():
        for channels in options.channels:
            grid = torch.zeros(1, channels, *GRID, device="cuda", dtype=dtype).to(memory_format=torch.channels_last_3d)
            grid[0, :, x, y, z] = torch.randn(channels, len(cells), device="cuda", dtype=dtype)
            layer = torch.nn.Conv3d(channels, channels, 3, padding=1, bias=False).cuda().to(dtype)
            layer = layer.to(memory_format=torch.channels_last_3d).eval()
            work = lambda: layer(grid)
            results.append({"name": "dense grid 128x128x32", "dtype": options.dtype, "voxels": len(cells),
                            "cin": channels, "cout": channels, "kernel": "3x3x3",
                            "kernels_ms": frame_file.kernel_milliseconds(work),
                            **frame_file.milliseconds(work, options.repeat)})
    frame_file.close("torch " + torch.__version__ + " (dense)", results)


if __name__ == "__main__":
    main()
