# Included from the root: what is installed beside program and library, and the Debian package of all of it (`cpack -G DEB`
# in the build folder).
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

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/copyright CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sparge-gen

Files: *
Copyright: 2026 The sparge-gen authors
License: Apache-2.0
 On Debian systems the text of the license is in /usr/share/common-licenses/Apache-2.0.
")
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sparge-gen)

set(CPACK_PACKAGE_NAME sparge-gen)
set(CPACK_PACKAGE_CONTACT "The sparge-gen authors <sparge-gen@sparge-gen.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "text to video with sparse attention")
set(CPACK_PACKAGE_DESCRIPTION "Turns a prompt into a video: text encoder, diffusion transformer and VAE decoder in one C program,
with training-free sparse attention. Holds the program, the library with its headers, and a small trained model.")
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
include(CPack)
