#!/usr/bin/env bash
# Times maps, layers and whole networks on a CUDA device (docs/performance_gpu.md holds the results), and the peers that are
# installed for python3 on the same frame.
#   scripts/run_gpu_benchmarks.sh [FRAME] [BUILD FOLDER]     FRAME: a cloud; without it, a simulated street
#   scripts/run_gpu_benchmarks.sh --built FOLDER [FRAME]     what another machine built; FOLDER/lib holds shared libraries
# OUT names a folder for the table's JSON and the plot.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --built ]; then
  build=$2 frame=${3:-}
  export LD_LIBRARY_PATH=$build/lib:${LD_LIBRARY_PATH:-}
else
  frame=${1:-} build=${2:-build-cuda}
  cmake -S . -B "$build" -G Ninja -DSPARSECONV_CUDA=ON
  cmake --build "$build" --target sparseconv_cli
fi
program=$build/bin/sparseconv
out=${OUT:-$(mktemp -d)}
if [ -z "$frame" ]; then
  "$program" simulate -o "$out/street" --frames 1 --seed 1 --format kitti
  frame=$out/street/000000.bin
fi
input=(--input "$frame")
"$program" bench map "${input[@]}" --voxel-size 0.05 --device cuda --repeat 50
"$program" bench layer "${input[@]}" --voxel-size 0.05 --device cuda --dtype fp16 --channels 32,64,128,256
for dtype in fp16 bf16 tf32 fp32; do
  "$program" bench network "${input[@]}" --voxel-size 0.05 --arch minkunet42 --device cuda --dtype $dtype --repeat 30
done
"$program" bench network "${input[@]}" --voxel-size 0.05 --arch minkunet42 --device cuda --dtype fp16 --batch 4 --repeat 30
for arch in second voxelnext; do
  "$program" bench network "${input[@]}" --voxel-size 0.1 --arch $arch --device cuda --dtype fp16 --repeat 30
done
for voxel in 0.05 0.1 0.2 0.4; do
  "$program" voxelize "$frame" -o "$out/frame_$voxel.h5" --voxel-size $voxel
done
python3 benchmarks/peers/compare.py --program "$program" --input "$out/frame_0.05.h5" \
  --more "$out/frame_0.1.h5" "$out/frame_0.2.h5" "$out/frame_0.4.h5" --json "$out/peers.json" --plot "$out/peers.png"
echo "numbers: $out/peers.json, plot: $out/peers.png"
