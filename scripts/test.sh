#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 to a tested build: installs what is missing, builds, runs every test that this
# machine can run. Ends with ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh
cmake -S . -B build -G Ninja
cmake --build build
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)"
