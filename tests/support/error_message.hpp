// What a call that must fail says.
#pragma once
#include <string>

#include "gemm_core/base/error.hpp"

namespace test_support {

// The message of the base::Error that `work` ends with, "" where it ends well.
template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace test_support
