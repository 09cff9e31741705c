#include "io/hdf5_trial.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "gemm_core/base/error.hpp"

namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    io::hdf5::try_in_child(body, 1);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Hdf5Trial, ACrashOfTheChildIsAnError) {
  EXPECT_EQ(
      message_of([] { std::raise(SIGSEGV); }),
      "HDF5: the file is damaged: the library ends with signal 11 (Segmentation fault) on it");
}

TEST(Hdf5Trial, AChildThatNeverEndsIsAnError) {
  EXPECT_NE(message_of([] {
              for (volatile bool goes_on = true; goes_on;) {
              }
            }),
            "");
}

TEST(Hdf5Trial, WhatTheChildThrowsOrChangesStaysThere) {
  int value = 1;
  EXPECT_EQ(message_of([&] {
              value = 2;
              throw std::runtime_error("said again by the reader");
            }),
            "");
  EXPECT_EQ(value, 1);
}

}  // namespace
