# Included from the root: what is installed beside program and library, and the packages of it, made in the build folder:
# `cpack -G DEB` makes packages of the program and of the library, `cpack -G TGZ` an archive of both that runs by itself.
# Run again by cpack, before it packs what is installed: see bundle.

# An archive also gets every library that the program and ours need.
include(${CMAKE_CURRENT_LIST_DIR}/../model/bundle.cmake)
function(bundle)
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
  set(program ${root}/bin/sparge-gen)
  file(GLOB_RECURSE shared ${root}/libspargegen.so.*.*)
  sg_bundle(${root} ${program} "${shared}")

  # The linker, too, looks for what they need from each other: RPATH is for libspargegen's own needs there.
  if(shared)
    file(GLOB_RECURSE pc ${root}/spargegen.pc)
    file(READ ${pc} text)
    string(REPLACE "-lspargegen" "-lspargegen -Wl,-rpath-link,\${prefix}/lib/sparge-gen" text "${text}")
    file(WRITE ${pc} "${text}")
    file(GLOB_RECURSE config ${root}/spargegen-config.cmake)
    cmake_path(GET config PARENT_PATH dir)
    file(RELATIVE_PATH lib ${dir} ${root}/lib/sparge-gen)
    file(APPEND ${config} "set_property(TARGET spargegen::spargegen PROPERTY INTERFACE_LINK_OPTIONS
  \"LINKER:-rpath-link,\${CMAKE_CURRENT_LIST_DIR}/${lib}\")\n")
  endif()

  # A script says where they are: the loader knows where a program lies by /proc alone, which a chroot may lack.
  file(RENAME ${program} ${root}/lib/sparge-gen/sparge-gen)
  file(WRITE ${program} [[
#!/bin/sh
self=$(readlink -f "$0")
lib=${self%/bin/*}/lib/sparge-gen
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$lib/sparge-gen" "$@"
]])
  file(CHMOD ${program} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endfunction()
if(CPACK_TEMPORARY_INSTALL_DIRECTORY)
  if(NOT CPACK_GENERATOR STREQUAL "DEB")
    bundle()
  endif()
  return()
endif()

include(GNUInstallDirs)

# The manual page and the shells' completions are what the program itself says.
set(written sparge-gen.1 sparge-gen.bash _sparge-gen)
set(topics man bash zsh)
foreach(file topic IN ZIP_LISTS written topics)
  add_custom_command(TARGET sparge-gen POST_BUILD COMMAND sparge-gen help ${topic} > ${file}
    BYPRODUCTS ${PROJECT_BINARY_DIR}/${file} WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/sparge-gen.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/sparge-gen.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME sparge-gen)
install(FILES ${PROJECT_BINARY_DIR}/_sparge-gen DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

set(copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sparge-gen

Files: *
Copyright: 2026 The sparge-gen authors
License: Apache-2.0
 On Debian systems the text of the license is in /usr/share/common-licenses/Apache-2.0.
")
if(SG_HAVE_CUDA)
  string(APPEND copyright "
Files: bin/sparge-gen lib/libspargegen.*
Copyright: 2026 The sparge-gen authors, NVIDIA Corporation
License: Apache-2.0 and CUDA-EULA
 They contain NVIDIA's CUDA runtime, which attachment A of https://docs.nvidia.com/cuda/eula/ allows to redistribute.
")
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/copyright CONTENT "${copyright}" @ONLY)
set(doc ${CMAKE_INSTALL_DATADIR}/doc)
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${doc}/sparge-gen)
if(SG_SERVE) # the command's help names it
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/serve/README.md DESTINATION ${doc}/sparge-gen RENAME serve.md)
endif()
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${doc}/libspargegen-dev COMPONENT development)

set(CPACK_PACKAGE_NAME sparge-gen)
set(CPACK_PACKAGE_CONTACT "The sparge-gen authors <sparge-gen@sparge-gen.invalid>")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_FILE})
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "text to video with sparse attention
Turns a prompt into a video: text encoder, diffusion transformer and VAE decoder in one C program,
with training-free sparse attention. Holds the program and a small trained model.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "text to video with sparse attention: development files
The library of sparge-gen for other programs. Holds headers, and what pkg-config and CMake find it by.")
# Of one version, the package of a newer release of the distribution is the newer one.
cmake_host_system_information(RESULT distribution QUERY DISTRIB_INFO)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${distribution_ID}${distribution_VERSION_ID})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME sparge-gen)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION video)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libspargegen-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS sparge-gen) # has the model that spargegen.pc names
if(SG_SHARED)
  list(APPEND CPACK_COMPONENTS_ALL library)
  set(name libspargegen${PROJECT_VERSION_MAJOR})
  set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "text to video with sparse attention: shared library
The library of sparge-gen for other programs.")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
  install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${doc}/${name} COMPONENT library)
  set(owners "${name} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
else() # whoever links it links these: see model/install.cmake
  execute_process(COMMAND dpkg-query --search ${linked} OUTPUT_VARIABLE owners ERROR_QUIET)
  string(REGEX MATCHALL "[^\n:]+:[^\n]*\n" owners "${owners}")
  list(TRANSFORM owners REPLACE "[:,].*" "")
endif()
list(REMOVE_DUPLICATES owners)
list(JOIN owners ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
include(CPack)
