// Parts of model files, for files that hold more than a model.
#pragma once
#include "io/hdf5_container.hpp"
#include "sparseconv/model.hpp"

namespace sparseconv {

// What load_model() reads, into a file that the caller commits. Checks the model.
void write_model(io::Hdf5Writer& file, const Model& model, base::DType weights);

}  // namespace sparseconv
