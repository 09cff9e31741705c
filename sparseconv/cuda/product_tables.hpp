// Tables and tile schedules that the gather kernels of a plan's products read, made in memory of
// their own for frames of one size: shared by all products over a map with the same tiles.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "gemm_core/device/cuda/gather/tile_schedule.hpp"
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

class ProductTables {
 public:
  explicit ProductTables(int device) : device_(device) {}
  void clear();
  // The table of products of one tap that read their own row, for rows of a level.
  const IdentityTable& identity(int level, std::int64_t rows);
  gemm_core::TileSchedule schedule(const gemm_core::GatherTable& table,
                                   gemm_core::cuda::TilePart part,
                                   const gemm_core::cuda::Sm90Instance& instance,
                                   std::int64_t cout);
  // Launches what fills them, once the maps stand; whether there are schedules.
  bool build(const std::function<RowCount(int level)>& rows_of, cudaStream_t stream) const;

 private:
  int device_;
  std::vector<gemm_core::cuda::TileScheduleJob> jobs_;
  std::vector<base::cuda::Buffer<gemm_core::TileRecord>> records_;
  std::vector<base::cuda::Buffer<std::int32_t>> memory_;
  std::map<int, IdentityTable> identities_;
};

}  // namespace sparseconv::cuda
