# The target `wheel`: build/sparge_gen-VERSION-py3-none-PLATFORM.whl, which pip installs on any Linux whose C library is as
# new as this one's. The package's folder in it is a prefix, as the archive of app/package.cmake is.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS model/python/* weights/tiny-wan/*)
  add_custom_command(OUTPUT wheel.made VERBATIM DEPENDS spargegen ${sources} model/bundle.cmake
    COMMAND ${CMAKE_COMMAND} -D build=${PROJECT_BINARY_DIR} -D version=${PROJECT_VERSION} -P ${CMAKE_CURRENT_LIST_FILE}
    COMMAND ${CMAKE_COMMAND} -E touch wheel.made)
  add_custom_target(wheel DEPENDS wheel.made)
  return()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/../bundle.cmake)
set(root ${build}/wheel)
set(package ${root}/sparge_gen)
file(REMOVE_RECURSE ${root})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/sparge_gen DESTINATION ${root} FILES_MATCHING PATTERN "*.py")
file(COPY ${CMAKE_CURRENT_LIST_DIR}/../../weights/tiny-wan DESTINATION ${package}/share/sparge-gen PATTERN recipe EXCLUDE)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/../spargegen/clips.h ${CMAKE_CURRENT_LIST_DIR}/../spargegen/spargegen.h
  ${CMAKE_CURRENT_LIST_DIR}/../../attention/policy.h
  DESTINATION ${package}/include/spargegen)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${build} --prefix ${package} --component library --strip
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE library ${package}/libspargegen.so.*.*)
sg_bundle(${package} "" ${library})
execute_process(COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/wheel.py ${root} ${version} ${build} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${root})
