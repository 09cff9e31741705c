#!/usr/bin/env python3
"""Times sparseconv and its peers on the same frames in one run, prints a table with ratios, and draws time against
voxels with floor lines.
    python3 compare.py --program build-cuda/bin/sparseconv --input street.h5 [--more coarser.h5 ...] --plot curve.png
Each peer that is not installed is said and left out. `--json FILE` keeps every number, `--measured FILE` prints and draws
such numbers again, on a machine without a GPU too."""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PEERS = ["spconv_peer.py", "torchsparse_peer.py", "torch_dense_peer.py"]


def document(command):
    """The JSON document that a command prints last, or None, said on stderr."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        text = done.stdout
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return json.loads(text.strip().splitlines()[-1])
    why = done.stderr.strip().splitlines()
    print(f"left out: {' '.join(map(str, command))}: {why[-1] if why else 'no message'}", file=sys.stderr)
    return None


def ours(program, frame, options):
    common = ["--input", frame, "--device", "cuda", "--dtype", options.dtype, "--json"]
    results, device = [], ""
    layer = document([program, "bench", "layer", "--channels", options.channels, *common])
    network = document([program, "bench", "network", "--arch", "minkunet42", "--repeat", "30", *common])
    for part in (layer, network):
        if part is not None:
            results += part["results"]
            device = f"{part['device']}, commit {part['commit']}, {part['date']}"
    for result in results:
        if result["name"] == "minkunet42":
            # As the peers: from coordinates and features on the device to values on the device.
            result["host_to_host_ms"] = result["time_ms"]
            result["time_ms"] = result["kernels_ms"] = result["maps_ms"] + result["network_ms"]
    return {"engine": "sparseconv", "device": device, "results": results}


def run(frame, options):
    engines = [ours(options.program, frame, options)]
    for peer in PEERS:
        engine = document([sys.executable, HERE / peer, "--input", frame, "--channels", options.channels,
                           "--dtype", options.dtype])
        if engine is not None:
            engines.append(engine)
    return {"frame": frame, "engines": engines}


def print_table(measured):
    print("frame                engine                 work                        cin:cout   voxels   time ms  "
          "on the GPU   ratio")
    for frame in measured:
        base = {(r["name"], r["cin"]): r for r in frame["engines"][0]["results"]}
        for engine in frame["engines"]:
            for r in engine["results"]:
                own = base.get((r["name"].split(",")[0], r["cin"]))
                inside = r.get("kernels_ms", r["time_ms"])
                ratio = f"{r['time_ms'] / own['time_ms']:6.1f}x" if own and engine is not frame["engines"][0] else ""
                print(f"{pathlib.Path(frame['frame']).name[:20]:20} {engine['engine'][:22]:22} {r['name'][:26]:26} "
                      f"{str(r['cin']) + ':' + str(r['cout']):>9} {r['voxels']:>8} {r['time_ms']:9.4f} "
                      f"{inside:11.4f} {ratio:>7}")


def draw(measured, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullFormatter

    works = sorted({(r["name"], r["cin"]) for f in measured for r in f["engines"][0]["results"]},
                   key=lambda w: (w[0], w[1]))
    if not works:
        print("nothing was measured: no plot", file=sys.stderr)
        return
    figure, axes = plt.subplots(1, len(works), figsize=(4 * len(works), 3.6), squeeze=False)
    for axis, (name, cin) in zip(axes[0], works):
        curves, floor = {}, []
        for frame in measured:
            for engine in frame["engines"]:
                for r in engine["results"]:
                    if (r["name"], r["cin"]) != (name, cin):
                        continue
                    curves.setdefault((engine["engine"], "-"), []).append((r["voxels"], r["time_ms"]))
                    if "kernels_ms" in r and engine is not frame["engines"][0]:
                        kernels = (engine["engine"] + ", its kernels alone", ":")
                        curves.setdefault(kernels, []).append((r["voxels"], r["kernels_ms"]))
                    if engine is frame["engines"][0] and r.get("floor_ms"):
                        floor.append((r["voxels"], r["floor_ms"]))
        colours = {}
        for (engine, line), points in curves.items():
            colour = colours.setdefault(engine.split(",")[0], f"C{len(colours)}")
            axis.plot(*zip(*sorted(points)), line, marker="o", color=colour, label=engine)
        if floor:
            axis.plot(*zip(*sorted(floor)), "k--", label="floor")
        axis.set(xscale="log", yscale="log", xlabel="voxels", ylabel="ms", title=f"{name}, {cin} in")
        axis.set_xticks(sorted({voxels for points in curves.values() for voxels, _ in points}))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda voxels, _: f"{voxels / 1000:.0f}k"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
        axis.grid(True, which="both", alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build-cuda/bin/sparseconv")
    parser.add_argument("--input", help="a voxel file")
    parser.add_argument("--measured", help="numbers that an earlier run kept; nothing is run")
    parser.add_argument("--more", nargs="*", default=[], help="further frames, for the plot")
    parser.add_argument("--channels", default="32,64,128,256")
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--plot")
    parser.add_argument("--json")
    options = parser.parse_args()
    if bool(options.input) == bool(options.measured):
        parser.error("one of --input and --measured is needed")
    if options.measured:
        measured = json.loads(pathlib.Path(options.measured).read_text())
    else:
        measured = [run(frame, options) for frame in [options.input, *options.more]]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(measured, indent=1))
    print(measured[0]["engines"][0]["device"])
    print_table(measured)
    if options.plot:
        draw(measured, options.plot)


if __name__ == "__main__":
    main()
