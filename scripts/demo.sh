#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 to a labelled point cloud: installs what is missing, builds the command line,
# simulates a street, runs a network on it, writes one label a point and two pictures.
#   scripts/demo.sh [FOLDER]        results go to FOLDER (default: out)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out}
scripts/install_dependencies.sh
cmake -S . -B build -G Ninja
cmake --build build --target sparseconv_cli
sparseconv=build/bin/sparseconv

"$sparseconv" simulate --sensor hdl64 --frames 1 --seed 7 -o "$out/scans" --format kitti
if [ -f models/street.h5 ]; then
  model=models/street.h5
else
  # Without a trained model the weights are seeded: the labels show the line, not the street.
  model="$out/minkunet18.h5"
  "$sparseconv" model init minkunet18 --width 0.5 --classes 11 -o "$model"
fi
"$sparseconv" run --model "$model" "$out/scans/000000.bin" --save labels --format ply -o "$out/labels"
"$sparseconv" render "$out/labels/000000.ply" --color label -o "$out/labels.png"
"$sparseconv" render "$out/scans/000000.label" --color label -o "$out/truth.png"
echo "labels: $out/labels/000000.ply   pictures: $out/labels.png $out/truth.png"
