# cmake -DSOURCE=web -DBUILD=folder -DNETWORK=folder -DNPM=npm -P LockstepBuildWeb.cmake builds the pages in BUILD, writes
# BUILD/assets.cpp, and fills NETWORK with the page that runs a network. If NPM is empty or fails, there are no files: the command
# is built anyway, and says how to get the page.
function(run result)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  set(${result} ${code} PARENT_SCOPE)
  if(NOT code EQUAL 0)
    message(WARNING "the page of lockstep dashboard will not be built: ${ARGN} ended with ${code}\n${out}")
  endif()
endfunction()

function(build_page is_built)
  set(${is_built} OFF PARENT_SCOPE)
  file(MAKE_DIRECTORY ${BUILD})
  foreach(name IN ITEMS package.json package-lock.json vite.config.js vite.network.config.js index.html)
    file(COPY_FILE ${SOURCE}/${name} ${BUILD}/${name} ONLY_IF_DIFFERENT)
  endforeach()
  file(REMOVE_RECURSE ${BUILD}/src ${BUILD}/dist ${BUILD}/network ${NETWORK})
  file(COPY ${SOURCE}/src DESTINATION ${BUILD})
  file(SHA256 ${SOURCE}/package-lock.json hash)
  set(code 0)
  if(NOT EXISTS ${BUILD}/node_modules/.of-${hash})
    run(code ${NPM} ci --no-audit --no-fund --ignore-scripts --prefer-offline)
    if(code EQUAL 0)
      file(WRITE ${BUILD}/node_modules/.of-${hash} "")
    endif()
  endif()
  if(code EQUAL 0)
    run(code ${NPM} run build)
  endif()
  if(code EQUAL 0)
    set(${is_built} ON PARENT_SCOPE)
  endif()
endfunction()

set(entries "")
set(page_is_built OFF)
if(NPM)
  build_page(page_is_built)
endif()
if(page_is_built)
  file(MAKE_DIRECTORY ${NETWORK})
  file(GLOB files ${BUILD}/network/*)
  file(COPY ${files} DESTINATION ${NETWORK})
  file(GLOB_RECURSE names RELATIVE ${BUILD}/dist ${BUILD}/dist/*)
  foreach(name IN LISTS names)
    file(READ ${BUILD}/dist/${name} text)
    string(APPEND entries "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
endif()
file(WRITE ${BUILD}/assets.cpp "// Made by cmake/LockstepBuildWeb.cmake from web/.
#include \"dashboard/assets.h\"

namespace lockstep::dashboard {
const std::map<std::string, std::string>& assets() {
  static const std::map<std::string, std::string> files = {
${entries}  };
  return files;
}
}  // namespace lockstep::dashboard
")
