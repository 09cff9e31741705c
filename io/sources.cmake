set(IO_SOURCES
  cloud.cpp)
