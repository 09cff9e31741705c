set(APPS_SOURCES
  main.cpp)
