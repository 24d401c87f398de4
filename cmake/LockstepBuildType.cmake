# Sets a build type if none was chosen: without one the kernels are not optimised, and training takes ten times as long. A project
# that adds Lockstep as a subdirectory makes its own choice, and gets a warning.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  else()
    message(WARNING "Lockstep is compiled without optimisation: CMAKE_BUILD_TYPE is not set. Release trains several times "
                    "faster: cmake -D CMAKE_BUILD_TYPE=Release")
  endif()
endif()
