#!/usr/bin/env python3
"""Times spconv on a frame: submanifold 3x3x3 layers and MinkUNet42, maps built in every frame and kept.
    python3 spconv_peer.py --input street.h5 --channels 32,64,128,256 --dtype fp16
Needs spconv-cuXXX and torch. Prints one JSON document."""
import frame_file
import torch
from torch import nn

import spconv
import spconv.pytorch as sp
from spconv.pytorch import functional as sp_functional

CHANNELS = [32, 64, 128, 256, 256, 128, 96, 96]


def subm(cin, cout, kernel, key):
    return sp.SubMConv3d(cin, cout, kernel, padding=kernel // 2, bias=False, indice_key=key)


def conv_bn_relu(conv, channels):
    return sp.SparseSequential(conv, nn.BatchNorm1d(channels), nn.ReLU(True))


class Block(sp.SparseModule):
    def __init__(self, cin, cout, key):
        super().__init__()
        self.first = conv_bn_relu(subm(cin, cout, 3, key), cout)
        self.second = sp.SparseSequential(subm(cout, cout, 3, key), nn.BatchNorm1d(cout))
        self.short = None
        if cin != cout:
            self.short = sp.SparseSequential(sp.SubMConv3d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout))

    def forward(self, x):
        short = x if self.short is None else self.short(x)
        y = self.second(self.first(x))
        return y.replace_feature(torch.relu(y.features + short.features))


class MinkUNet42(nn.Module):
    def __init__(self, cin, classes):
        super().__init__()
        self.stem = nn.ModuleList(
            [conv_bn_relu(subm(cin, 32, 3, "s0"), 32), conv_bn_relu(subm(32, 32, 3, "s0"), 32)])
        self.down, self.encoders, self.up, self.decoders = (nn.ModuleList() for _ in range(4))
        width, skips = 32, [32]
        for s in range(4):
            self.down.append(conv_bn_relu(sp.SparseConv3d(width, width, 2, 2, bias=False, indice_key=f"d{s}"), width))
            self.encoders.append(nn.ModuleList(
                [Block(width, CHANNELS[s], f"s{s + 1}"), Block(CHANNELS[s], CHANNELS[s], f"s{s + 1}")]))
            width = CHANNELS[s]
            skips.append(width)
        for s in range(4):
            out = CHANNELS[4 + s]
            self.up.append(conv_bn_relu(sp.SparseInverseConv3d(width, out, 2, bias=False, indice_key=f"d{3 - s}"), out))
            joined = out + skips[3 - s]
            self.decoders.append(nn.ModuleList([Block(joined, out, f"s{3 - s}"), Block(out, out, f"s{3 - s}")]))
            width = out
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for layer in self.stem:
            x = layer(x)
        skips = [x]
        for down, blocks in zip(self.down, self.encoders):
            x = down(x)
            for block in blocks:
                x = block(x)
            skips.append(x)
        for s, (up, blocks) in enumerate(zip(self.up, self.decoders)):
            x = up(x)
            x = x.replace_feature(torch.cat([x.features, skips[3 - s].features], 1))
            for block in blocks:
                x = block(x)
        return self.head(x.features)


def main():
    options = frame_file.arguments(__doc__)
    coordinates = frame_file.read_coordinates(options.input, options.batch)
    dtype = torch.float16 if options.dtype == "fp16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = options.dtype == "tf32"
    spconv.constants.SPCONV_ALLOW_TF32 = options.dtype == "tf32"
    # spconv orders coordinates batch, z, y, x.
    indices = torch.from_numpy(coordinates[:, [0, 3, 2, 1]].copy()).cuda()
    shape = [int(n) + 1 for n in coordinates[:, [3, 2, 1]].max(0)]
    entries = int(coordinates[:, 0].max()) + 1
    results = []

    def tensor(features):
        return sp.SparseConvTensor(features, indices, shape, entries)

    with torch.no_grad():
        for channels in options.channels:
            features = torch.randn(len(indices), channels, device="cuda", dtype=dtype)
            layer = sp.SubMConv3d(channels, channels, 3, padding=1, bias=False, indice_key="k").cuda().to(dtype).eval()
            kept = layer(tensor(features))
            cached = tensor(features)
            cached.indice_dict = kept.indice_dict
            for name, work in [("submanifold", lambda: layer(cached)),
                               ("submanifold, map included", lambda: layer(tensor(features)))]:
                results.append({"name": name, "dtype": options.dtype, "voxels": len(indices), "cin": channels,
                                "cout": channels, "kernel": "3x3x3",
                                "kernels_ms": frame_file.kernel_milliseconds(work),
                                **frame_file.milliseconds(work, options.repeat)})
        if not options.no_network:
            features = torch.randn(len(indices), 4, device="cuda", dtype=dtype)
            network = MinkUNet42(4, 20).cuda().to(dtype).eval()
            work = lambda: network(tensor(features))
            results.append({"name": "minkunet42", "dtype": options.dtype, "voxels": len(indices), "cin": 4, "cout": 20,
                            "batch": entries, "kernels_ms": frame_file.kernel_milliseconds(work),
                            **frame_file.milliseconds(work, options.repeat)})
    frame_file.close("spconv " + spconv.__version__, results)


if __name__ == "__main__":
    main()
