// train: a network from labelled scans or from the simulator.
#include "apps/commands.hpp"
#include "apps/train/session.hpp"

namespace apps {

Command train_command() {
  Command command{
      .name = "train",
      .summary = "trains a network on labelled scans or simulated streets",
      .usage = "--arch NAME | --model M.h5 --data DIR|simulator --epochs N -o OUT.h5 [options]",
      .examples =
          "  sparseconv train --arch minkunet14 --width 0.25 --data simulator --scans 200 \\\n"
          "      --epochs 5 -o street.h5\n"
          "  sparseconv train --arch minkunet18 --data sequences/ --classes kitti.json \\\n"
          "      --epochs 30 -o mine.h5\n"
          "  sparseconv train --model street.h5 --data mine/ --epochs 5 -o tuned.h5\n"
          "  sparseconv train ... -o mine.h5 --resume          goes on where it was stopped\n"};
  add_train_options(command);
  command.max_inputs = 0;
  command.run = [](const Arguments& arguments) {
    return TrainSession(train_settings(arguments)).run();
  };
  return command;
}

}  // namespace apps
