#include "apps/bench/bench.hpp"
#include "apps/commands.hpp"
#include "apps/values.hpp"
#include "gemm_core/base/parallel.hpp"
#include "sparseconv/device_timing.hpp"
#include "sparseconv/kernel_map.hpp"
#include "sparseconv/voxelize.hpp"

namespace apps {
namespace {

using sparseconv::ConvGeometry, sparseconv::Coordinates, sparseconv::CoordinatesPtr;

// A piece of the work between a cloud and a network. `prepare` is not timed and runs before every
// round, so that what a coordinate set remembers (its hash map) is built anew each time.
struct Piece {
  std::string name;
  std::string kernel;
  std::function<void()> prepare, work;
  double bytes = 0;  // least that is read and written
  std::int64_t rows = 0;
  Json more = Json::object();
};

CoordinatesPtr copy_of(const CoordinatesPtr& coordinates, const base::BlockCachePtr& cache) {
  return Coordinates::create({coordinates->coords().begin(), coordinates->coords().end()},
                             {.batch_size = coordinates->batch_size(),
                              .spatial_shape = coordinates->spatial_shape(),
                              .cache = cache});
}

// Memory goes round as in an engine: what one round gave back is there for the next.
class MapBench {
 public:
  MapBench(const BenchFrame& frame, const FrameOptions& options)
      : frame_(frame), options_(options) {
    const CoordinatesPtr& fine = frame.voxels.coordinates;
    coarse_ = sparseconv::strided_coordinates(fine, kHalf);
    half_ = sparseconv::build_kernel_map(fine, coarse_, kHalf);
  }

  std::vector<Piece> pieces() {
    const CoordinatesPtr& fine = frame_.voxels.coordinates;
    const auto rows = fine->size();
    const auto fresh = [this, &fine] { fresh_ = copy_of(fine, cache_); };
    std::vector<Piece> all;
    if (!frame_.clouds.empty()) all.push_back(voxelize_piece());
    all.push_back({.name = "hash map",
                   .prepare = fresh,
                   .work = [this] { fresh_->hash_map(); },
                   .bytes = static_cast<double>(rows) * 24,
                   .rows = rows});
    for (const int size : {3, 5}) {
      const auto geometry = ConvGeometry::submanifold({size, size, size});
      all.push_back(
          {.name = "submanifold map, hash included",
           .kernel = kernel_text(size),
           .prepare = fresh,
           .work = [this,
                    geometry] { sparseconv::build_kernel_map(fresh_, fresh_, geometry, cache_); },
           .bytes = static_cast<double>(rows) * (8 + 4.0 * geometry.taps()),
           .rows = rows,
           .more = {{"pairs", sparseconv::build_kernel_map(fine, fine, geometry)->pairs()}}});
    }
    all.push_back({.name = "strided coordinates",
                   .kernel = kernel_text(2),
                   .prepare = fresh,
                   .work = [this] { sparseconv::strided_coordinates(fresh_, kHalf, cache_); },
                   .bytes = static_cast<double>(rows + coarse_->size()) * 8,
                   .rows = coarse_->size()});
    all.push_back({.name = "strided map",
                   .kernel = kernel_text(2),
                   .prepare = fresh,
                   .work = [this] { sparseconv::build_kernel_map(fresh_, coarse_, kHalf, cache_); },
                   .bytes = static_cast<double>(half_->nbytes() + rows * 8),
                   .rows = coarse_->size()});
    all.push_back({.name = "inverse map",
                   .kernel = kernel_text(2),
                   .prepare = [] {},
                   .work = [this] { sparseconv::invert(half_, cache_); },
                   .bytes = static_cast<double>(2 * half_->nbytes()),
                   .rows = rows});
    return all;
  }

 private:
  static std::string kernel_text(int size) {
    const std::string k = std::to_string(size);
    return k + 'x' + k + 'x' + k;
  }

  Piece voxelize_piece() {
    for (const io::Cloud& cloud : frame_.clouds) clouds_.push_back(&cloud);
    std::int64_t points = 0;
    for (const io::Cloud& cloud : frame_.clouds) points += cloud.size();
    const sparseconv::VoxelizeOptions options{.voxel_size = options_.voxelize.voxel_size,
                                              .features = {"x", "y", "z", "intensity"},
                                              .defaults = {{"intensity", 0.0}},
                                              .cache = cache_};
    const std::int64_t rows = frame_.voxels.rows();
    return {.name = "voxelize",
            .prepare = [] {},
            .work = [this, options] { sparseconv::voxelize(clouds_, options); },
            .bytes = static_cast<double>(points) * (16 + 8) + static_cast<double>(rows) * 40,
            .rows = rows,
            .more = {{"points", points}}};
  }

  inline static const ConvGeometry kHalf{.kernel = {2, 2, 2}, .stride = {2, 2, 2}};
  const BenchFrame& frame_;
  const FrameOptions& options_;
  const base::BlockCachePtr cache_ = std::make_shared<base::BlockCache>();
  CoordinatesPtr coarse_, fresh_;
  sparseconv::KernelMapPtr half_;
  std::vector<const io::Cloud*> clouds_;
};

BenchResult gpu_result(const std::string& name, const BenchFrame& frame,
                       std::vector<double> milliseconds, double bytes) {
  return {.name = name,
          .dtype = "int32",
          .voxels = frame.voxels.rows(),
          .times = times_of(std::move(milliseconds)),
          .bytes = bytes};
}

// Keys to what kernels read: one map, and all that a network of five levels needs.
int bench_maps_on_gpu(const BenchSettings& settings, const FrameOptions& options) {
  const BenchFrame frame = load_frame(options);
  const base::Device device = settings.place();
  const int rounds = settings.rounds.repeat;
  const auto rows = static_cast<double>(frame.voxels.rows());
  BenchReport report(settings);
  if (!frame.clouds.empty()) {
    std::vector<const io::Cloud*> clouds;
    double points = 0;
    for (const io::Cloud& cloud : frame.clouds) {
      clouds.push_back(&cloud);
      points += static_cast<double>(cloud.size());
    }
    const sparseconv::VoxelizeOptions how{.voxel_size = options.voxelize.voxel_size,
                                          .features = {"x", "y", "z", "intensity"},
                                          .defaults = {{"intensity", 0.0}}};
    report.add(gpu_result("voxelize", frame, sparseconv::time_voxelize(clouds, how, device, rounds),
                          points * (16 + 4) + rows * 24));
  }
  const auto& keys = frame.voxels.coordinates;
  for (const int levels : {1, 5}) {
    for (const bool has_order : {false, true}) {
      std::string name = levels == 1 ? "k3 map, hash included" : "maps of five levels";
      if (has_order) name += ", row orders";
      report.add(
          gpu_result(name, frame,
                     sparseconv::time_maps(
                         {.input = keys, .levels = levels, .has_order = has_order}, device, rounds),
                     rows * (8 + 4.0 * 27)));
    }
  }
  return report.close();
}

int bench_maps(const Arguments& arguments) {
  const BenchSettings settings = bench_settings(arguments);
  if (!settings.place().is_cpu()) return bench_maps_on_gpu(settings, frame_options(arguments));
  const FrameOptions options = frame_options(arguments);
  const BenchFrame frame = load_frame(options);
  BenchReport report(settings);
  MapBench bench(frame, options);
  for (const Piece& piece : bench.pieces()) {
    std::vector<base::Threads> pools;
    std::vector<std::function<double()>> contenders;
    for (const int threads : settings.threads) pools.emplace_back(threads);
    for (const base::Threads& pool : pools) {
      contenders.push_back([&] {
        piece.prepare();
        return seconds_of([&] { pool.run(piece.work); }, settings.clock);
      });
    }
    const std::vector<Times> times = time_in_turn(contenders, settings.rounds);
    for (std::size_t i = 0; i < times.size(); ++i) {
      BenchResult result{.name = piece.name,
                         .dtype = "int32",
                         .threads = settings.threads[i],
                         .voxels = piece.rows,
                         .times = times[i],
                         .bytes = piece.bytes,
                         .more = piece.more};
      if (!piece.kernel.empty()) result.kernel = piece.kernel;
      if (piece.more.contains("points")) {
        result.more["mpoints_per_s"] = piece.more["points"].get<double>() * 1e-3 / times[i].min_ms;
      }
      report.add(result);
    }
  }
  return report.close();
}

}  // namespace

Command bench_map_command() {
  Command command{
      .name = "bench map",
      .summary = "time voxelising, hashing, coordinates and kernel maps",
      .usage = "[--input FILE...] [options]",
      .examples =
          "  sparseconv bench map\n"
          "  sparseconv bench map --input scan.bin --voxel-size 0.05 --threads 1,2 --json"};
  add_frame_options(command);
  add_bench_options(command);
  command.max_inputs = 0;
  command.run = bench_maps;
  return command;
}

}  // namespace apps
