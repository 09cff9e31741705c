#include "io/cloud.hpp"
