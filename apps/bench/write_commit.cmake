# cmake -DROOT=<source> -DOUT=<file.cpp> -P write_commit.cmake: the commit as a source file, touched only when it changes.
cmake_minimum_required(VERSION 3.25)
set(commit "unknown")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${ROOT} describe --always --abbrev=12 --exclude=* --dirty=+
                  RESULT_VARIABLE status OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0)
    set(commit "${found}")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
  "#include \"apps/bench/commit.hpp\"\nnamespace apps {\nconst char* const kCommit = \"@commit@\";\n}\n" @ONLY)
