// Starts the processes that read HDF5 files. They are copies of a small process, which is itself
// copied from this one once, before memory is full of clouds: copying a large program for every
// file takes longer than reading it, and the program would copy every page that it writes next.
#pragma once
#include <string>

#include "io/hdf5_process.hpp"

namespace io::hdf5 {

// Runs serve(file, channel) in a new process, which ends when it returns. Error where no process
// can be started.
struct Reader {
  Channel channel;
  int status = -1;  // to read from: how the process ended, an int of waitpid(), once it has
};
Reader start_reader(Serve serve, int file, const Allowance& allowance);

// Starts the small process now, where it does not run: before threads, which a copy would not have.
// Where it cannot be started, start_reader() says so.
void start_ahead();

}  // namespace io::hdf5
