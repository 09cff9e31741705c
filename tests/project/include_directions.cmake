# cmake -DROOT=<tree> -P include_directions.cmake: fails when a folder includes what it may not (docs/architecture.md).
#   apps -> sparseconv -> {gemm_core, io};  io -> gemm_core/base;  floors of gemm_core never include higher ones.
cmake_minimum_required(VERSION 3.25)
set(failures "")

function(forbid folder pattern reason)
  file(GLOB_RECURSE files "${ROOT}/${folder}/*.hpp" "${ROOT}/${folder}/*.h" "${ROOT}/${folder}/*.cpp"
       "${ROOT}/${folder}/*.cu" "${ROOT}/${folder}/*.cuh")
  foreach(file IN LISTS files)
    file(STRINGS "${file}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"](${pattern})")
    foreach(line IN LISTS includes)
      file(RELATIVE_PATH short "${ROOT}" "${file}")
      message(SEND_ERROR "${short}: ${line}\n  ${reason}")
    endforeach()
  endforeach()
endfunction()

forbid(gemm_core "(io|sparseconv|apps)/" "gemm_core includes nothing above it")
forbid(io "(sparseconv|apps)/" "io knows nothing of convolutions")
forbid(io "gemm_core/(layout|atom|collective|epilogue|kernel|device)/" "io takes gemm_core/base only")
forbid(sparseconv "apps/" "sparseconv does not know the command line")
forbid(sparseconv "io/(io\\.h|formats|readers|simulator)" "sparseconv takes the cloud and the HDF5 container from io, nothing else")
forbid(gemm_core/base "gemm_core/(layout|atom|collective|epilogue|kernel|device)/" "base is the lowest floor")
forbid(gemm_core/layout "gemm_core/(atom|collective|epilogue|kernel|device)/" "layout is below atom")
forbid(gemm_core/layout "cuda" "layout compiles without CUDA")
forbid(gemm_core/atom "gemm_core/(collective|epilogue|kernel|device)/" "atom is below collective")
forbid(gemm_core/collective "gemm_core/(kernel|device)/" "collective is below kernel")
forbid(gemm_core/epilogue "gemm_core/(kernel|device)/" "epilogue is below kernel")
forbid(gemm_core/kernel "gemm_core/device/" "kernel is below device")
