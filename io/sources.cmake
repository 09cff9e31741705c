set(IO_SOURCES
  ascii_rows.cpp cloud.cpp field_names.cpp fit_columns.cpp implausible_layout.cpp io.cpp lzf.cpp poses.cpp number_text.cpp short_decimal.cpp hdf5_signature.cpp
  records.cpp registry.cpp sequence.cpp sink.cpp source.cpp
  formats/e57_format.cpp formats/hdf5_cloud.cpp formats/kitti.cpp formats/label.cpp formats/las.cpp formats/las_header.cpp formats/las_points.cpp formats/las_records.cpp formats/las_writer.cpp
  formats/npy.cpp formats/npy_array.cpp formats/npy_header.cpp formats/npz.cpp formats/packed_colour.cpp formats/pcd.cpp formats/pcd_header.cpp
  formats/ply.cpp formats/ply_header.cpp formats/ptx.cpp formats/text.cpp formats/text_table.cpp formats/zip.cpp formats/laz_layout.cpp formats/laz_chunk_table.cpp formats/e57_header.cpp)
foreach(pair laz:laszip e57:e57)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 format)
  list(GET pair 1 dependency)
  if(TARGET sparseconv_${dependency})
    list(APPEND IO_SOURCES formats/${format}.cpp)
  else()
    list(APPEND IO_SOURCES formats/no_${format}.cpp)
  endif()
endforeach()
if(TARGET sparseconv_laszip)
  list(APPEND IO_SOURCES formats/laz_decoder.cpp)
endif()
if(TARGET sparseconv_e57)
  list(APPEND IO_SOURCES formats/e57_scans.cpp)
endif()
if(SPARSECONV_HDF5)  # whose reading process decodes LAZ and E57, too
  list(APPEND IO_SOURCES formats/own_process.cpp)
  set_source_files_properties(formats/laz.cpp formats/e57.cpp PROPERTIES COMPILE_DEFINITIONS SPARSECONV_OWN_PROCESS)
endif()
if(SPARSECONV_HDF5)
  list(APPEND IO_SOURCES hdf5_container.cpp hdf5_file.cpp hdf5_message.cpp hdf5_process.cpp hdf5_serve.cpp hdf5_starter.cpp hdf5_types.cpp hdf5_writer.cpp)
else()
  list(APPEND IO_SOURCES no_hdf5.cpp)
endif()
# The simulator gives the same bytes on every machine: no multiply and add may be contracted into one rounding.
set(IO_SIMULATOR_SOURCES
  simulator.cpp
  simulator/buildings.cpp
  simulator/furniture.cpp
  simulator/ground.cpp
  simulator/intersect.cpp
  simulator/kerbside.cpp
  simulator/lots.cpp
  simulator/math.cpp
  simulator/people.cpp
  simulator/plants.cpp
  simulator/reservation.cpp
  simulator/scene.cpp
  simulator/sensors.cpp
  simulator/street.cpp
  simulator/traffic.cpp
  simulator/vehicles.cpp)
set_source_files_properties(${IO_SIMULATOR_SOURCES} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
# Fuzz targets read only: without the simulator they build in two thirds of the time.
if(SPARSECONV_APPS OR SPARSECONV_TESTS OR SPARSECONV_BENCHMARKS OR NOT SPARSECONV_FUZZ)
  list(APPEND IO_SOURCES ${IO_SIMULATOR_SOURCES})
endif()
