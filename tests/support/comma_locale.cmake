# A locale with a decimal comma in the build folder, for tests that numbers do not depend on it; the system needs none.
# Where it cannot be made (no localedef, no sources of locales), those tests report themselves as skipped.
set(SPARSECONV_LOCALES ${PROJECT_BINARY_DIR}/locales)
find_program(LOCALEDEF_PROGRAM localedef)
if(LOCALEDEF_PROGRAM AND NOT EXISTS ${SPARSECONV_LOCALES}/de_DE.UTF-8)
  file(MAKE_DIRECTORY ${SPARSECONV_LOCALES})
  execute_process(COMMAND ${LOCALEDEF_PROGRAM} -c -i de_DE -f UTF-8 ${SPARSECONV_LOCALES}/de_DE.UTF-8
    OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE ignored)
endif()
