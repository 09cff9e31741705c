set(SPARSECONV_SOURCES
  conv_geometry.cpp)
