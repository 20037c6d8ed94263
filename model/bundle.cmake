# Included by scripts: app/package.cmake, for an archive, and python/wheel.cmake.

# Brings every library that the programs and libraries given need, but the C library, into root/lib/sparge-gen, where
# install.cmake's RPATH has them; and their notices with a list of where they are from: whoever hands this on owes these, and
# of some the sources. usage: sg_bundle(ROOT PROGRAM LIBRARY), either of which may be empty
function(sg_bundle root program library)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} LIBRARIES ${library} RESOLVED_DEPENDENCIES_VAR libraries
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl)\\.so\\.")
  file(COPY ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../LICENSE DESTINATION ${root}/share/doc/sparge-gen)
  file(COPY ${libraries} DESTINATION ${root}/lib/sparge-gen FOLLOW_SYMLINK_CHAIN)

  set(notices ${root}/share/doc/sparge-gen/libraries)
  set(list "The libraries in lib/sparge-gen are the distribution's, unchanged. Their notices are in this folder. Where some are
under the GPL, as FFmpeg is in Debian, so is this archive as a whole: version 3.

")
  set(files) # as of / and of /usr: packages of Debian 12 still say /lib
  foreach(library ${libraries})
    file(REAL_PATH ${library} file)
    string(REGEX REPLACE "^/usr/" "/" file ${file})
    list(APPEND files ${file} /usr${file})
  endforeach()
  execute_process(COMMAND dpkg-query --search ${files} OUTPUT_VARIABLE owners ERROR_QUIET)
  string(REPLACE "\n" ";" owners "${owners}")
  foreach(line ${owners})
    if(line MATCHES "^([^:,]+).*: (/usr)?(/.*)$")
      set(package_${CMAKE_MATCH_3} ${CMAKE_MATCH_1})
    endif()
  endforeach()
  foreach(library ${libraries})
    get_filename_component(name ${library} NAME)
    file(REAL_PATH ${library} file)
    string(REGEX REPLACE "^/usr/" "/" file ${file})
    set(package ${package_${file}})
    if(NOT package)
      message(WARNING "${library} is of no package; its notice is missing")
      string(APPEND list "${name}: of no package\n")
      continue()
    endif()
    execute_process(COMMAND dpkg-query --show --showformat "\${source:Package}/\${source:Version}" ${package}
      OUTPUT_VARIABLE source)
    string(APPEND list "${name}: ${package}, source https://snapshot.debian.org/package/${source}/\n")
    configure_file(/usr/share/doc/${package}/copyright ${notices}/${package} COPYONLY)
  endforeach()
  file(WRITE ${notices}/README "${list}")
  if(EXISTS /usr/share/common-licenses) # which the notices refer to
    file(COPY /usr/share/common-licenses DESTINATION ${notices})
  endif()
endfunction()
