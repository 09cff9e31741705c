// Two trainings of one network joined.
#pragma once
#include "sparseconv/model.hpp"

namespace apps {

// Every weight and running statistic of `model` becomes (1 - share) * its own + share * that of
// `other`. Where one was trained on from the other, what lies between keeps more of both than
// either (Wortsman et al., Robust fine-tuning of zero-shot models, 2022). Error: the networks
// differ (graph, features, voxel size or classes).
void mix_weights(sparseconv::Model& model, const sparseconv::Model& other, double share);

}  // namespace apps
