#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 to a labelled point cloud: installs what is missing, builds the command line,
# simulates a street, labels it with the bundled model, writes one label a point and pictures, prints the scores.
#   scripts/demo.sh [FOLDER]        results go to FOLDER (default: out)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out}
scripts/install_dependencies.sh
cmake -S . -B build -G Ninja
cmake --build build --target sparseconv_cli
sparseconv=build/bin/sparseconv

"$sparseconv" simulate --sensor hdl64 --frames 1 --seed 1006 -o "$out/scans" --format kitti
"$sparseconv" run --model models/street.h5 "$out/scans/000000.bin" --save labels --format ply -o "$out/labels"
"$sparseconv" render "$out/labels/000000.ply" --color label -o "$out/labels.png"
"$sparseconv" render "$out/scans/000000.label" --color label -o "$out/truth.png"
"$sparseconv" render --side-by-side "$out/scans/000000.label" "$out/labels/000000.ply" --view perspective \
  --camera oblique --size 800x520 -o "$out/street.png"
"$sparseconv" eval --model models/street.h5 "$out/scans"
echo "labels: $out/labels/000000.ply   truth beside prediction: $out/street.png"
