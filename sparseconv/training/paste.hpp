// Pasting objects into scans; augment() calls it.
#pragma once
#include "sparseconv/training/augment.hpp"
#include "sparseconv/training/random.hpp"

namespace sparseconv::training {

// Up to `count` objects of the bank, as AugmentOptions::paste describes. A column of the scan that
// an object's scan lacks, or has in another type, is 0 for its points.
LabelledCloud with_pasted(const LabelledCloud& scan, const InstanceBank& bank, int count,
                          RandomStream random);

}  // namespace sparseconv::training
