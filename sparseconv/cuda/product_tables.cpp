#include "sparseconv/cuda/product_tables.hpp"

#include <algorithm>

#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {

using gemm_core::cuda::TilePart;

void ProductTables::clear() {
  jobs_.clear();
  records_.clear();
  memory_.clear();
  identities_.clear();
}

const IdentityTable& ProductTables::identity(int level, std::int64_t rows) {
  const auto found = identities_.find(level);
  if (found != identities_.end()) return found->second;
  constexpr std::int64_t kSlots = gemm_core::kSlotAlignment;
  IdentityTable table;
  table.capacity = std::max<std::int64_t>(1, (rows + kSlots - 1) / kSlots) * kSlots;
  const std::int64_t groups = table.capacity / gemm_core::kSlotGroup;
  auto& memory = memory_.emplace_back(at(table.capacity + groups + 8));
  table.iota = memory.data();
  table.masks = reinterpret_cast<std::uint32_t*>(memory.data() + table.capacity);
  table.plane_begin = memory.data() + table.capacity + groups;
  return identities_[level] = table;
}

gemm_core::TileSchedule ProductTables::schedule(const gemm_core::GatherTable& table, TilePart part,
                                                const gemm_core::cuda::Sm90Instance& instance,
                                                std::int64_t cout) {
  const int lists = gemm_core::cuda::lists_for(instance, cout, base::cuda::device_info(device_));
  for (const auto& job : jobs_) {
    if (job.table.rows == table.rows && job.part == part && job.tile == instance.tile_m &&
        job.lists == lists)
      return {job.tile, job.lists, job.pitch, job.records};
  }
  const std::int32_t pitch =
      gemm_core::cuda::schedule_pitch(table.capacity, instance.tile_m, lists);
  records_.emplace_back(at(std::int64_t{pitch} * lists));
  memory_.emplace_back(at(table.capacity / instance.tile_m + 1));
  jobs_.push_back(
      {table, part, instance.tile_m, lists, pitch, records_.back().data(), memory_.back().data()});
  return {instance.tile_m, lists, pitch, records_.back().data()};
}

bool ProductTables::build(const std::function<RowCount(int level)>& rows_of,
                          cudaStream_t stream) const {
  std::vector<IdentityJob> identities;
  for (const auto& [level, table] : identities_) identities.push_back({table, rows_of(level)});
  fill_identities(identities, stream);
  gemm_core::cuda::build_tile_schedules(jobs_, stream);
  return !jobs_.empty();
}

}  // namespace sparseconv::cuda
