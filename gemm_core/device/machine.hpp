// What this machine can do at best, measured now: the denominators of every fraction that
// benchmarks report.
//   const double peak = gemm_core::measure_fma_peak(2);   // FLOP/s of two threads, fp32
#pragma once

namespace gemm_core {

// Most fp32 operations a second (a multiply-add is two) by `threads` threads at once, with the
// instructions that the CPU kernels use: the best of several short bursts, so that other work on
// the machine lowers it least.
double measure_fma_peak(int threads);

// Bytes read plus bytes written a second by a copy between arrays far larger than the caches.
double measure_copy_bandwidth(int threads);

const char* cpu_instruction_set();  // the one chosen at run time, e.g. "AVX2"

}  // namespace gemm_core
