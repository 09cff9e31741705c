#!/usr/bin/env bash
# Builds and runs everything that needs a CUDA device: kernels, maps, voxels, executor and engine against the CPU, golden and
# behaviour cases on the device, bits over processes, then the sanitizers on small cases. Closes with a table.
#   scripts/run_gpu_tests.sh [BUILD FOLDER]             default: build-cuda
#   scripts/run_gpu_tests.sh --built FOLDER             what another machine built; FOLDER/lib holds shared libraries
# SPARSECONV_SOAK_FRAMES=10000 makes the soak long; SKIP_SANITIZERS=1 leaves the sanitizers out; LOGS names a folder for logs.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --built ]; then
  build=$2
  export LD_LIBRARY_PATH=$build/lib:${LD_LIBRARY_PATH:-}
  [ -d "$build/shared" ] && export SPARSECONV_SHARED=$build/shared
else
  build=${1:-build-cuda}
  cmake -S . -B "$build" -G Ninja -DSPARSECONV_CUDA=ON -DSPARSECONV_CUDA_PORTABLE_ARCHITECTURES=80 || exit 1
  cmake --build "$build" --target gemm_core_cuda_test gemm_core_instructions_cuda_test gemm_core_dense_cuda_test gemm_core_mixed_cuda_test gemm_core_operations_cuda_test gemm_core_visitor_cuda_test sparseconv_cuda_test sparseconv_cuda_maps_test sparseconv_cuda_engine_test \
    sparseconv_cuda_training_test sparseconv_trainer_test golden_test sparseconv_behaviour_test sparseconv_engine_test || exit 1
fi
logs=${LOGS:-$(mktemp -d)}
names=() results=()
check() {
  local name=$1 start=$SECONDS
  shift
  local log="$logs/${name//[^a-zA-Z0-9]/_}.log"
  if timeout 900 "$@" >"$log" 2>&1; then
    results+=("passed, $((SECONDS - start)) s$(grep -q SKIPPED "$log" && echo ', some skipped')")
  else
    results+=("FAILED, $((SECONDS - start)) s")
    grep -E "Failure|FAILED|rror|what\(\)|========= " "$log" | head -${FAILURE_LINES:-25}
  fi
  names+=("$name")
}
kernels=$build/tests/cuda/gemm_core_cuda_test
instructions=$build/tests/cuda/gemm_core_instructions_cuda_test
dense=$build/tests/cuda/gemm_core_dense_cuda_test
mixed=$build/tests/cuda/gemm_core_mixed_cuda_test
operations=$build/tests/cuda/gemm_core_operations_cuda_test
visitors=$build/tests/cuda/gemm_core_visitor_cuda_test
maps=$build/tests/cuda/sparseconv_cuda_maps_test
networks=$build/tests/cuda/sparseconv_cuda_test
engine=$build/tests/cuda/sparseconv_cuda_engine_test
training=$build/tests/cuda/sparseconv_cuda_training_test
check "instructions" "$instructions" --gtest_brief=1
check "kernels" "$kernels" --gtest_brief=1
check "dense products" "$dense" --gtest_brief=1
check "narrow weights, complex" "$mixed" --gtest_brief=1
check "dense operations" "$operations" --gtest_brief=1
# What Ampere would run, compiled from PTX for this device.
check "kernels of sm_80" env CUDA_FORCE_PTX_JIT=1 "$operations" --gtest_brief=1 --gtest_filter='CudaPortable*'
check "visitors and gathers" "$visitors" --gtest_brief=1
check "maps and voxels" "$maps" --gtest_brief=1 --gtest_filter='*device*:FrameMaps.*'
check "networks" "$networks" --gtest_brief=1
check "engine" "$engine" --gtest_brief=1 --gtest_filter='-LargeGrid*'
check "beyond 2^31" "$engine" --gtest_brief=1 --gtest_filter='LargeGrid*'
check "gradients and losses" "$training" --gtest_brief=1
export SPARSECONV_TEST_DEVICE=cuda
check "training on cuda" "$build/tests/sparseconv/sparseconv_trainer_test" --gtest_brief=1
check "behaviour on cuda" "$build/tests/sparseconv/sparseconv_behaviour_test" --gtest_brief=1
check "engine cases on cuda" "$build/tests/sparseconv/sparseconv_engine_test" --gtest_brief=1
for golden in layers.h5 minkunet minkunet_scaled second second_residual mixed; do
  check "golden $golden" "$build/tests/sparseconv/golden_test" --file "golden/$golden"
done
unset SPARSECONV_TEST_DEVICE
same_digest() {
  local digests
  digests=$(for _ in 1 2 3; do "$engine" --gtest_brief=1 --gtest_filter='*SameBits*' | grep digest; done | sort | uniq -c)
  echo "$digests"
  [ "$(echo "$digests" | wc -l)" = 1 ] && [ -n "$digests" ]
}
export -f same_digest
export engine
check "bits over processes" bash -c same_digest
if command -v compute-sanitizer >/dev/null && [ -z "${SKIP_SANITIZERS:-}" ]; then
  sanitize() { check "$1, $2" compute-sanitizer --error-exitcode 1 --tool "$1" "${@:3}"; }
  sanitize memcheck instructions "$instructions" --gtest_brief=1
  # racecheck does not follow one lane's arrival for its warp (docs/cuda_state.md): the ring of stages is left out.
  for tool in synccheck initcheck racecheck; do
    sanitize $tool instructions "$instructions" --gtest_brief=1 --gtest_filter='-*HandStages*'
  done
  sanitize memcheck kernels "$kernels" --gtest_brief=1 --gtest_filter='TileSchedule*:*Strided*:*OneTap*:*OwnRows*:*EightBits*:Simt*'
  sanitize memcheck "dense products" "$dense" --gtest_brief=1 --gtest_filter='*Pointer*:*Updates*:*Batches*:*Takes*:*Refuses*'
  few='*ByHand*:*Portable*Conv*:CudaContraction.WhatIs*:*IndexBuffers*:CudaReduction.Nothing*:CudaSparse.Products*:CudaConv.Scales*'
  sanitize memcheck "dense operations" "$operations" --gtest_brief=1 --gtest_filter="$few"
  sanitize memcheck "visitors and gathers" "$visitors" --gtest_brief=1 --gtest_filter='-*SameBits*:*EveryFunction*'
  sanitize memcheck maps "$maps" --gtest_brief=1 --gtest_filter='*Merged*device:*Chains*device:*Halving*device:VoxelizerOn*/device'
  sanitize memcheck networks "$networks" --gtest_brief=1 --gtest_filter='*Changing*:*Pools*:*Devoxelize*:*SmallIntegers*'
  sanitize memcheck losses "$training" --gtest_brief=1 --gtest_filter='CudaLosses.Ignored*:CudaLosses.Weights*'
  sanitize racecheck losses "$training" --gtest_brief=1 --gtest_filter='CudaLosses.Ignored*:CudaLosses.Weights*'
  norms='*conv_bn_relu:*residual_block:*OfDevoxelize*:*OfABlock*'
  sanitize memcheck "norms and points" "$training" --gtest_brief=1 --gtest_filter="$norms"
  sanitize racecheck "norms and points" "$training" --gtest_brief=1 --gtest_filter="$norms"
  for tool in memcheck racecheck synccheck initcheck; do
    sanitize $tool "narrow weights, complex" "$mixed" --gtest_brief=1 --gtest_filter='*ForSanitizers'
  done
  sanitize synccheck "dense products" "$dense" --gtest_brief=1 --gtest_filter='*Pointer*:*Updates*'
  sanitize initcheck "dense products" "$dense" --gtest_brief=1 --gtest_filter='*Pointer*:*Updates*'
  sanitize racecheck kernels "$kernels" --gtest_brief=1 --gtest_filter='*ForSanitizers*:Simt*Groups*'
  sanitize racecheck "dense products" "$dense" --gtest_brief=1 --gtest_filter='*Pointer*:*Updates*'
  sanitize racecheck "dense operations" "$operations" --gtest_brief=1 --gtest_filter="$few"
  sanitize synccheck "dense operations" "$operations" --gtest_brief=1 --gtest_filter="$few"
  sanitize initcheck "dense operations" "$operations" --gtest_brief=1 --gtest_filter='*ByHand*:CudaReduction.Nothing*:CudaConv.Scales*'
  sanitize racecheck "visitors and gathers" "$visitors" --gtest_brief=1 --gtest_filter='*CommonForms*:*Reduces*:*Example59*:*WithoutAnIndex*'
  sanitize racecheck maps "$maps" --gtest_brief=1 --gtest_filter='*ForSanitizers/device:DeviceSort.ForSanitizers:VoxelizerOn.Replaced*/device'
  sanitize initcheck kernels "$kernels" --gtest_brief=1 --gtest_filter='*ForSanitizers*:*OneTap*'
  sanitize synccheck "visitors and gathers" "$visitors" --gtest_brief=1 --gtest_filter='*CommonForms*:*Reduces*:*Example59*'
  sanitize initcheck maps "$maps" --gtest_brief=1 --gtest_filter='*Merged*device:VoxelizerOn.Replaced*/device'
fi
echo
failed=0
for i in "${!names[@]}"; do
  printf '%-28s %s\n' "${names[$i]}" "${results[$i]}"
  case "${results[$i]}" in passed*) ;; *) failed=1 ;; esac
done
exit $failed
