#!/usr/bin/env bash
# Installs what sparseconv builds with, on Debian 12 and Ubuntu 24.04. Asks no questions; needs root or sudo.
#   scripts/install_dependencies.sh            libraries, compiler, CMake, Ninja, ccache
#   scripts/install_dependencies.sh --pcl      PCL too (interoperation with pcl::PointCloud; large)
#   scripts/install_dependencies.sh --fuzz     Clang with libFuzzer and the sanitizers
#   scripts/install_dependencies.sh --format   clang-format 14, the one that .ci/check_format goes by
# CUDA is not installed from here: where nvcc 12.4 or newer is found, -DSPARSECONV_CUDA=ON uses it.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache pkg-config git ca-certificates
  libtbb-dev libhwy-dev libhdf5-dev libboost-program-options-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libeigen3-dev libpng-dev zlib1g-dev locales libgtest-dev libgmock-dev libbenchmark-dev)

for argument in "$@"; do
  case "$argument" in
    --pcl) packages+=(libpcl-dev) ;;
    --fuzz) packages+=(clang libclang-rt-dev llvm) ;;
    --format) packages+=(clang-format-14) ;;
    --help | -h) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install_dependencies.sh: unknown option $argument (--pcl, --fuzz, --format)" >&2; exit 2 ;;
  esac
done

command -v apt-get >/dev/null || { echo "install_dependencies.sh: needs apt (Debian 12, Ubuntu 24.04)" >&2; exit 1; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install_dependencies.sh: run as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "all dependencies are installed"
  exit 0
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
# LASzip is packaged by Ubuntu only; LAZ files need it.
if apt-cache show liblaszip-dev >/dev/null 2>&1; then
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends liblaszip-dev >/dev/null
fi
