set(IO_SOURCES
  cloud.cpp)
if(SPARSECONV_HDF5)
  list(APPEND IO_SOURCES hdf5_container.cpp hdf5_writer.cpp)
else()
  list(APPEND IO_SOURCES no_hdf5.cpp)
endif()
