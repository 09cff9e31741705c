#!/usr/bin/env bash
# Times layers and whole networks on a CUDA device (docs/performance_gpu.md holds the results).
#   scripts/run_gpu_benchmarks.sh [CELLS FILE] [BUILD FOLDER]    cells: int32 [N, 3]; without a file, procedural surfaces
set -euo pipefail
cd "$(dirname "$0")/.."
cells=() ; [ -n "${1:-}" ] && cells=(--cells "$1")
build=${2:-build-cuda}
cmake -S . -B "$build" -G Ninja -DSPARSECONV_CUDA=ON -DSPARSECONV_BENCHMARKS=ON
cmake --build "$build" --target gather_conv_cuda_bench network_bench
for parents in 0 1 2 3 4; do
  "$build/benchmarks/gather_conv_cuda_bench" "${cells[@]}" --parents "$parents" \
    --channels 32,64,96,128,128,256,384 --out-channels 32,64,96,96,128,256,256
done
for dtype in fp16 bf16 tf32 fp32; do
  "$build/benchmarks/network_bench" "${cells[@]}" --arch minkunet42 --dtype "$dtype"
done
"$build/benchmarks/network_bench" "${cells[@]}" --arch minkunet42 --dtype fp16 --batch 4 --frames 20
