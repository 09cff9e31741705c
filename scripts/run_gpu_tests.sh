#!/usr/bin/env bash
# Builds and runs everything that needs a CUDA device: kernels, maps and executor against the CPU, then the sanitizers on the
# small cases. Closes with a table.
#   scripts/run_gpu_tests.sh [BUILD FOLDER]      default: build-cuda
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-cuda}
cmake -S . -B "$build" -G Ninja -DSPARSECONV_CUDA=ON || exit 1
cmake --build "$build" --target gemm_core_cuda_test sparseconv_cuda_test || exit 1

names=() results=()
check() {
  local name=$1
  shift
  echo "== $name"
  if timeout 600 "$@"; then results+=(passed); else results+=(FAILED); fi
  names+=("$name")
}
kernels=$build/tests/cuda/gemm_core_cuda_test
networks=$build/tests/cuda/sparseconv_cuda_test
check "kernels" "$kernels" --gtest_brief=1
check "networks" "$networks" --gtest_brief=1
if command -v compute-sanitizer >/dev/null; then
  small='TileSchedule*:*Strided*:*OneTap*:Simt*'
  check "memcheck, kernels" compute-sanitizer --error-exitcode 1 --tool memcheck "$kernels" --gtest_brief=1 --gtest_filter="$small"
  check "memcheck, networks" compute-sanitizer --error-exitcode 1 --tool memcheck "$networks" --gtest_brief=1 --gtest_filter='*Changing*:*Pools*'
  check "racecheck, kernels" compute-sanitizer --error-exitcode 1 --tool racecheck "$kernels" --gtest_brief=1 --gtest_filter='*Strided*:Simt*Groups*'
  check "initcheck, kernels" compute-sanitizer --error-exitcode 1 --tool initcheck "$kernels" --gtest_brief=1 --gtest_filter='*Strided*:*OneTap*'
fi
echo
failed=0
for i in "${!names[@]}"; do
  printf '%-24s %s\n' "${names[$i]}" "${results[$i]}"
  [ "${results[$i]}" = passed ] || failed=1
done
exit $failed
