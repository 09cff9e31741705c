#!/usr/bin/env python3
"""Times the readers of laspy, Open3D and NumPy against io::read on the same files (page cache, best of several rounds).

    io_peers.py BUILD_FOLDER [--rounds 5] [--points 2000000]

Needs io_bench and the command line in BUILD_FOLDER; peers that cannot be imported are left out. For measuring only.
"""
import argparse
import array
import pathlib
import random
import subprocess
import tempfile
import time


def best_seconds(work, rounds):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def write_scan(path, points):
    random.seed(1)
    some = array.array("f")
    for _ in range(20000):
        some.extend([random.uniform(-80, 80), random.uniform(-80, 80), random.uniform(-2, 6), random.random()])
    with open(path, "wb") as out:
        for _ in range(points // 20000):
            out.write(some.tobytes())


def readers():
    """(name, extension, function) of every peer that is there. Each leaves coordinates as arrays, as io::read does."""
    found = []
    try:
        import laspy
        import numpy

        def read_las(path):
            # laspy keeps records and computes on access; a reader of columns takes them all.
            cloud = laspy.read(path)
            names = [name for name in cloud.point_format.dimension_names if name not in "XYZ"]
            return [numpy.array(cloud[name]) for name in ("x", "y", "z", *names)]

        found.append(("laspy", ".las", read_las))
    except ImportError:
        print("laspy is not installed")
    try:
        import open3d

        for extension in (".ply", ".pcd", ".xyz"):
            found.append(("open3d", extension, lambda path: open3d.t.io.read_point_cloud(str(path))))
    except Exception as error:  # Open3D fails to load in many ways
        print("open3d is not usable:", str(error).splitlines()[0])
    try:
        import numpy

        def read_npy(path):
            records = numpy.load(path)
            return [numpy.ascontiguousarray(records[name]) for name in records.dtype.names]

        found.append(("numpy", ".npy", read_npy))
        found.append(("numpy.loadtxt", ".xyz", lambda path: numpy.loadtxt(path)))
    except ImportError:
        print("numpy is not installed")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--points", type=int, default=2000000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scan = pathlib.Path(folder) / "scan.bin"
        write_scan(scan, options.points)
        for name, extension, read in readers():
            path = pathlib.Path(folder) / ("scan" + extension)
            if not path.exists():
                subprocess.run([options.build / "bin/sparseconv", "convert", scan, path], check=True,
                               stderr=subprocess.DEVNULL)
            rounds = 1 if name == "numpy.loadtxt" else options.rounds
            theirs = best_seconds(lambda: read(path), rounds)
            said = subprocess.run([options.build / "benchmarks/io_bench", "--read", path, "--rounds", str(options.rounds)],
                                  check=True, capture_output=True, text=True).stdout
            ours = float(said.split()[1])
            print(f"{name:14s} {extension}  {theirs * 1e3:8.1f} ms, io::read {ours * 1e3:7.1f} ms: "
                  f"{theirs / ours:.2f} x as fast")


if __name__ == "__main__":
    main()
