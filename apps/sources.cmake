set(APPS_SOURCES
  command.cpp
  commands.cpp
  messages.cpp
  results.cpp
  values.cpp
  main.cpp)
