// Training as a whole: it learns, repeats itself bit by bit, goes on from checkpoints, and leaves a
// usable model behind whatever goes wrong.
#include "sparseconv/training/trainer.hpp"
#include "sparseconv/training/tape.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "sparseconv/engine.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_device.hpp"

namespace {

using namespace sparseconv;
using namespace sparseconv::training;
using test_support::ScratchFolder;

constexpr const char* kUnet =
    R"({"name":"s","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":12},
       {"name":"sn","op":"batch_norm","inputs":["s"]},{"name":"sr","op":"relu","inputs":["sn"]},
       {"name":"d","op":"conv","inputs":["sr"],"kernel":2,"stride":2,"out_channels":16},
       {"name":"dn","op":"batch_norm","inputs":["d"]},{"name":"dr","op":"relu","inputs":["dn"]},
       {"name":"e","op":"conv","inputs":["dr"],"kernel":3,"submanifold":true,"out_channels":16},
       {"name":"en","op":"batch_norm","inputs":["e"]},{"name":"sum","op":"add","inputs":["en","dr"]},
       {"name":"er","op":"relu","inputs":["sum"]},
       {"name":"u","op":"inverse_conv","inputs":["er"],"pair":"d","out_channels":12},
       {"name":"un","op":"batch_norm","inputs":["u"]},{"name":"ur","op":"relu","inputs":["un"]},
       {"name":"cat","op":"concat","inputs":["ur","sr"]},
       {"name":"out","op":"linear","inputs":["cat"],"out_channels":4,"bias":true})";

Model unet() {
  Model model = test_support::random_model(kUnet, 4);
  model.classes = {"a", "b", "c", "d"};
  model.class_ids = {0, 1, 2, 3};
  return model;
}

// Labels that only neighbours tell: how many of the cells above and beside a voxel are taken.
Batch batch_of(std::uint64_t seed) {
  Batch batch;
  batch.voxels = test_support::random_tensor({.shape = {14, 12, 10}, .seed = seed});
  std::set<std::array<int, 4>> taken;
  for (const Coord& c : batch.voxels.coordinates->coords()) taken.insert({c.batch, c.x, c.y, c.z});
  for (const Coord& c : batch.voxels.coordinates->coords()) {
    const auto has = [&](int x, int z) {
      return static_cast<std::int32_t>(taken.count({c.batch, c.x + x, c.y, c.z + z}));
    };
    batch.labels.push_back(2 * has(0, 1) + has(1, 0));
  }
  batch.labels[3] = kIgnore;
  return batch;
}

TrainOptions options(int threads = 2) {
  TrainOptions o;
  o.schedule = {
      .kind = ScheduleOptions::Kind::cosine, .rate = 1e-2, .steps = 120, .warmup_steps = 5};
  o.clip_norm = 5;
  o.ema_decay = 0.9;
  o.threads = threads;
  o.device = test_support::test_device();
  return o;
}

std::vector<float> weights_of(const Model& model) {
  std::vector<float> all;
  for (const Node& node : model.nodes) {
    for (const auto& [name, tensor] : node.weights) {
      all.insert(all.end(), tensor.data<float>(), tensor.data<float>() + tensor.numel());
    }
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trainer, LearnsOneScanByHeart) {
  for (const auto kind : {OptimiserOptions::Kind::adamw, OptimiserOptions::Kind::sgd}) {
    TrainOptions o = options();
    o.ema_decay = 0;
    o.optimiser.kind = kind;
    o.optimiser.weight_decay = 0;
    if (kind == OptimiserOptions::Kind::sgd) o.schedule.rate = 0.1;
    const Batch batch = batch_of(1);
    Trainer trainer(unet(), o);
    const double first = trainer.step(batch).loss;
    StepReport last;
    for (int i = 0; i < 119; ++i) last = trainer.step(batch);
    EXPECT_LT(last.loss, 0.1 * first);
    EXPECT_GT(static_cast<double>(last.correct), 0.99 * static_cast<double>(last.labelled));
    EXPECT_EQ(last.labelled, batch.voxels.rows() - 1);
    // With running statistics, as an engine runs it.
    const auto predicted = trainer.predict(batch);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == batch.labels[i];
    EXPECT_GT(static_cast<double>(right), 0.98 * static_cast<double>(last.labelled));
  }
}

TEST(Trainer, LearnsInEveryElementType) {
  for (const char* dtype : {"tf32", "fp16", "bf16"}) {
    TrainOptions o = options();
    o.ema_decay = 0;
    o.dtype = dtype;
    o.recomputes = true;
    const Batch batch = batch_of(1);
    Trainer trainer(unet(), o);
    StepReport last;
    for (int i = 0; i < 120; ++i) last = trainer.step(batch);
    EXPECT_GT(static_cast<double>(last.correct), 0.99 * static_cast<double>(last.labelled))
        << dtype;
    EXPECT_EQ(trainer.predict(batch).size(), batch.labels.size());
  }
}

// Behaviour 11 for training: beyond 65504 in fp16 the step stops and says where.
TEST(Trainer, NamesTheNodeThatLeavesTheRangeOfHalfPrecision) {
  TrainOptions o = options();
  o.dtype = "fp16";
  Trainer trainer(unet(), o);
  Batch batch = batch_of(1);
  batch.voxels.features = batch.voxels.features.clone();
  float* values = batch.voxels.features.data<float>();
  for (std::int64_t i = 0; i < batch.voxels.features.numel(); ++i) values[i] *= 1e6f;
  const std::string message = message_of([&] { trainer.step(batch); });
  EXPECT_NE(message.find("node 's'"), std::string::npos) << message;
}

TEST(Trainer, FiftyStepsGiveTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> expected;
  double loss = 0;
  for (const int threads : {1, 1, 2, 5}) {
    TrainOptions o = options(threads);
    o.loss = {.class_weights = {1, 2, 1, 3}, .label_smoothing = 0.05, .lovasz_weight = 0.5};
    Trainer trainer(unet(), o);
    StepReport last;
    for (int i = 0; i < 50; ++i) last = trainer.step(batch_of(1 + i % 4));
    const auto weights = weights_of(trainer.model());
    if (expected.empty()) {
      expected = weights;
      loss = last.loss;
    }
    EXPECT_TRUE(same_bits(weights, expected)) << threads << " threads";
    EXPECT_EQ(last.loss, loss);
  }
}

TEST(Trainer, GoesOnFromACheckpointToTheSameBits) {
  const ScratchFolder folder;
  const auto path = folder / "last.h5";
  for (const auto kind : {OptimiserOptions::Kind::adamw, OptimiserOptions::Kind::sgd}) {
    TrainOptions o = options();
    o.optimiser.kind = kind;
    Trainer whole(unet(), o);
    for (int i = 0; i < 16; ++i) {
      whole.step(batch_of(1 + i % 3));
      if (i == 7) whole.save_checkpoint(path, "epoch 7");
    }
    Trainer resumed(unet(), o);
    EXPECT_EQ(resumed.resume(path), "epoch 7");
    EXPECT_EQ(resumed.steps_done(), 8);
    for (int i = 8; i < 16; ++i) resumed.step(batch_of(1 + i % 3));
    EXPECT_TRUE(same_bits(weights_of(whole.model()), weights_of(resumed.model())));
    resumed.save_checkpoint(folder / "a.h5");
    whole.save_checkpoint(folder / "b.h5");
    EXPECT_TRUE(same_bits(weights_of(load_model(folder / "a.h5")),
                          weights_of(load_model(folder / "b.h5"))));
  }
}

// fp32 on both: sums in another order, and what twelve updates make of that.
TEST(Trainer, StepsOnADeviceFollowTheCpusAndCheckpointsGoBothWays) {
  if (test_support::is_on_cpu()) GTEST_SKIP() << "no other device is asked for";
  const ScratchFolder folder;
  const auto path = folder / "last.h5";
  TrainOptions here = options(), there = options();
  here.device = "cpu";
  here.loss =
      there.loss = {.class_weights = {1, 2, 1, 3}, .label_smoothing = 0.05, .focal_gamma = 1};
  Trainer cpu(unet(), here), device(unet(), there);
  for (int i = 0; i < 12; ++i) {
    const Batch batch = batch_of(1 + i % 3);
    const StepReport expected = cpu.step(batch), got = device.step(batch);
    const double tolerance = i == 0 ? 1e-4 : 2e-2;
    EXPECT_NEAR(got.loss, expected.loss, tolerance * expected.loss) << "step " << i;
    EXPECT_NEAR(got.gradient_norm, expected.gradient_norm, 2 * tolerance * expected.gradient_norm);
    EXPECT_EQ(got.labelled, expected.labelled);
    EXPECT_EQ(got.predictions.size(), expected.predictions.size());
  }
  for (const auto& [from, to] : {std::pair(&cpu, &device), std::pair(&device, &cpu)}) {
    from->save_checkpoint(path, "note");
    EXPECT_EQ(to->resume(path), "note");
    EXPECT_TRUE(same_bits(weights_of(from->model()), weights_of(to->model())));
    const StepReport a = from->step(batch_of(4)), b = to->step(batch_of(4));
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * a.loss);
  }
}

TEST(Trainer, RefusesACheckpointOfAnotherRun) {
  const ScratchFolder folder;
  const auto path = folder / "last.h5", plain = folder / "plain.h5";
  Trainer trainer(unet(), options());
  trainer.save_checkpoint(path);
  save_model(plain, unet());
  EXPECT_NE(message_of([&] { trainer.resume(plain); }).find("no checkpoint"), std::string::npos);
  TrainOptions sgd = options();
  sgd.optimiser.kind = OptimiserOptions::Kind::sgd;
  EXPECT_EQ(message_of([&] { Trainer(unet(), sgd).resume(path); }),
            "checkpoint: written by the optimiser adamw, this run uses sgd");
  Model other = unet();
  other.nodes[0].name = other.nodes[1].inputs[0] = "stem";
  EXPECT_NE(message_of([&] { Trainer(other, options()).resume(path); }).find("node 0 is 's'"),
            std::string::npos);
  EXPECT_NE(message_of([&] { trainer.resume(folder / "none.h5"); }), "no error");
}

TEST(Trainer, NamesTheNodeAndTheStepOfALossThatIsNotFinite) {
  Trainer trainer(unet(), options());
  const Batch good = batch_of(1);
  trainer.step(good);
  const auto before = weights_of(trainer.model());
  Batch bad = batch_of(1);
  bad.voxels.features = bad.voxels.features.clone();
  bad.voxels.features.data<float>()[5] = std::numeric_limits<float>::infinity();
  const std::string message = message_of([&] { trainer.step(bad); });
  EXPECT_NE(message.find("step 1: the loss is "), std::string::npos) << message;
  EXPECT_NE(message.find("node 's'"), std::string::npos) << message;
  EXPECT_TRUE(same_bits(weights_of(trainer.model()), before));
  EXPECT_EQ(trainer.steps_done(), 1);
  EXPECT_TRUE(std::isfinite(trainer.step(good).loss));
}

// Finite values whose variance is beyond float: found in the step, before anything moves.
TEST(Trainer, NamesTheNodeAndTheStepOfStatisticsBeyondFloat) {
  TrainOptions on_cpu = options();
  on_cpu.device = "cpu";
  Trainer trainer(unet(), on_cpu);
  const Batch good = batch_of(1);
  trainer.step(good);
  const auto before = weights_of(trainer.model());
  Batch bad = batch_of(1);
  bad.voxels.features = bad.voxels.features.clone();
  float* features = bad.voxels.features.data<float>();
  for (std::int64_t i = 0; i < bad.voxels.features.numel(); ++i) features[i] *= 3e25f;
  const std::string message = message_of([&] { trainer.step(bad); });
  EXPECT_NE(message.find("step 1: running statistics: "), std::string::npos) << message;
  EXPECT_NE(message.find("beyond float at node '"), std::string::npos) << message;
  EXPECT_TRUE(same_bits(weights_of(trainer.model()), before));
  EXPECT_TRUE(std::isfinite(trainer.step(good).loss));
}

// What save_checkpoint() asks before it writes.
TEST(Parameters, NameTheFirstValueThatIsNotFinite) {
  Tape tape(unet(), {});
  tape.parameters().require_finite();
  tape.parameters().statistics[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message_of([&] { tape.parameters().require_finite(); }).find("running_"),
            std::string::npos);
  tape.parameters().values[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(message_of([&] {
              tape.parameters().require_finite();
            }).find("node 's': weight holds a value that is not finite"),
            0u);
}

TEST(Trainer, NamesWhatIsWrongWithABatch) {
  Trainer trainer(unet(), options());
  Batch batch = batch_of(1);
  batch.labels.pop_back();
  EXPECT_NE(message_of([&] { trainer.step(batch); }).find("labels for"), std::string::npos);
  batch.labels.push_back(4);
  EXPECT_NE(message_of([&] { trainer.step(batch); }).find("label 4 of row"), std::string::npos);
  EXPECT_NE(message_of([&] { trainer.step({}); }), "no error");
}

TEST(Trainer, ABatchWithoutLabelsMovesNoWeight) {
  Trainer trainer(unet(), options());
  trainer.step(batch_of(1));
  Batch ignored = batch_of(2), empty;
  std::fill(ignored.labels.begin(), ignored.labels.end(), kIgnore);
  empty.voxels = test_support::tensor_of({}, 4, {.batch_size = 2});
  const auto trained = [&] {
    std::vector<float> all;
    const Model model = trainer.model();
    for (const Node& node : model.nodes) {
      for (const auto& [name, tensor] : node.weights) {
        if (name == "running_mean" || name == "running_var") continue;
        all.insert(all.end(), tensor.data<float>(), tensor.data<float>() + tensor.numel());
      }
    }
    return all;
  };
  const auto before = trained();
  for (const Batch* batch : {&ignored, &empty}) {
    const StepReport report = trainer.step(*batch);
    EXPECT_EQ(report.loss, 0);
    EXPECT_EQ(report.labelled, 0);
    EXPECT_TRUE(same_bits(trained(), before));
  }
  EXPECT_EQ(trainer.steps_done(), 3);
}

TEST(Trainer, RefusesOptionsWithoutMeaning) {
  const auto refuses = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions o;
    change(o);
    return message_of([&] { Trainer(unet(), o); });
  };
  EXPECT_EQ(refuses([](auto&) {}), "no error");
  EXPECT_NE(refuses([](auto& o) { o.schedule.rate = 0; }).find("rate"), std::string::npos);
  EXPECT_NE(refuses([](auto& o) { o.optimiser.beta2 = 1; }).find("beta2"), std::string::npos);
  EXPECT_NE(refuses([](auto& o) { o.ema_decay = 1; }).find("ema_decay"), std::string::npos);
  EXPECT_NE(refuses([](auto& o) { o.loss.class_weights = {1}; }).find("class weights"),
            std::string::npos);
  Model no_classes = unet();
  no_classes.classes.clear();
  no_classes.class_ids.clear();
  EXPECT_NE(message_of([&] { Trainer(no_classes, {}); }).find("no classes"), std::string::npos);
}

// A process that writes one checkpoint after the other is killed at some moment: what is at the
// path is whole.
TEST(Trainer, AKillWhileWritingLosesNothing) {
  const ScratchFolder folder;
  const auto path = folder / "last.h5";
  const Trainer trainer(unet(), options());  // has not run yet: no threads that a fork would lose
  trainer.save_checkpoint(path, "first");
  for (int round = 0; round < 8; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i) trainer.save_checkpoint(path, base::concat("round ", i));
    }
    usleep(static_cast<useconds_t>(3000 + 1700 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Trainer reader(unet(), options());
    EXPECT_FALSE(reader.resume(path).empty());
  }
}

TEST(Trainer, ACheckpointThatCannotBeWrittenLeavesTheLast) {
  const ScratchFolder folder;
  const auto path = folder / "last.h5";
  Trainer trainer(unet(), options());
  trainer.save_checkpoint(path, "good");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // a limit on file sizes stands for a full disk
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] { trainer.save_checkpoint(path, "bad"); });
    _exit(message == "no error" ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(trainer.resume(path), "good");
  std::int64_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
    ++files;
  EXPECT_EQ(files, 1);
}

}  // namespace
