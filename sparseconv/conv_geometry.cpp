#include "sparseconv/conv_geometry.hpp"
