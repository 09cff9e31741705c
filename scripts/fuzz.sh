#!/usr/bin/env bash
# Builds the fuzz targets with Clang under address and undefined behaviour sanitizers and runs each of them.
#   scripts/fuzz.sh                          20 seconds a target, as continuous integration does
#   scripts/fuzz.sh --seconds 600 pcd ply    ten minutes for the PCD and PLY readers
#   scripts/fuzz.sh --jobs 4                 targets run at a time (all cores)
# Corpora grow in build-fuzz/corpus/<target>; inputs that break something are kept in build-fuzz/findings/<target>.
# Exit status 1 when a target found something.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=20 jobs=$(nproc) targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --help | -h) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "fuzz.sh: unknown option $1 (--seconds, --jobs)" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
command -v clang++ >/dev/null || { echo "fuzz.sh: needs clang++ (scripts/install_dependencies.sh --fuzz)" >&2; exit 2; }

build=build-fuzz
cmake -S . -B $build -G Ninja -DSPARSECONV_FUZZ=ON -DSPARSECONV_TESTS=OFF -DSPARSECONV_APPS=OFF -DSPARSECONV_PCL=OFF -DSPARSECONV_BENCHMARKS=OFF \
  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DSPARSECONV_SANITIZE=address,undefined >/dev/null
cmake --build $build --target fuzz
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets <$build/fuzz/targets.txt
mkdir -p $build/seeds
$build/fuzz/fuzz_seeds $build/seeds

run_one() {
  local target=$1 corpus=$build/corpus/$1 findings=$build/findings/$1 status=0 leaks=1
  # HDF5's library, LASzip and libE57Format leak and break in the process that reads, which is no finding: its reports stay in the log, without names,
  # whose look-up would take most of the time. One whose frames are not all the library's is for a human.
  # On a loaded machine the start of such a process alone takes a minute and more.
  local symbols=1 stuck=30
  case $target in
    hdf5 | laz | e57 | voxels | model) leaks=0 symbols=0 stuck=300 ;;
  esac
  mkdir -p "$corpus" "$findings" "$build/logs"
  # A small file must not take much memory: what is allocated at once is limited, HDF5's own tables set how far.
  ASAN_OPTIONS=detect_leaks=$leaks:symbolize=$symbols UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $build/fuzz/fuzz_"$target" -max_total_time="$seconds" \
    -malloc_limit_mb=16 -rss_limit_mb=1024 -timeout="$stuck" -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="$findings/" "$corpus" $(ls -d "$build/seeds/$target" "fuzz/findings/$target" 2>/dev/null) \
    >"$build/logs/$target.log" 2>&1 || status=$?
  local runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/logs/$target.log" | tail -n 1)  # readers that end print theirs
  if [ $status -eq 0 ]; then
    printf '%-10s %12s inputs, nothing found\n' "$target" "$runs"
  else
    printf '%-10s FOUND something, see %s\n' "$target" "$build/logs/$target.log"
    grep -m 1 -E 'ERROR|runtime error|SUMMARY' "$build/logs/$target.log" || true
    return 1
  fi
}
export -f run_one
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run_one {}'
