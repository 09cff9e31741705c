#include "sparseconv/coord.hpp"  // what include_directions.cmake must catch
