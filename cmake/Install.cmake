# What `cmake --install` puts where, and the .deb that CPack makes of it. The
# program finds its data by its own path (bin/ beside share/), so any prefix
# will do, also at install time.
include(GNUInstallDirs)
set(data_dir "${CMAKE_INSTALL_DATADIR}/nexus")
set(doc_dir "${CMAKE_INSTALL_DATADIR}/doc/nexus")

install(TARGETS nexus_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/models/" DESTINATION "${data_dir}/models"
  FILES_MATCHING PATTERN "*.gguf" PATTERN "*.router.json"
  # The baseline that the tuned encoder is measured against.
  PATTERN "all-MiniLM-*" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/profiles/"
  DESTINATION "${data_dir}/profiles" FILES_MATCHING PATTERN "*.json"
  PATTERN "trials" EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE"
  "${PROJECT_SOURCE_DIR}/packaging/copyright" DESTINATION "${doc_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/models/README.md" DESTINATION "${doc_dir}"
  RENAME models.md)
file(GLOB pages "${PROJECT_SOURCE_DIR}/docs/*.md")
install(FILES ${pages} DESTINATION "${doc_dir}/docs")

# Made by the program itself: they can't say what it doesn't do.
set(made "${PROJECT_BINARY_DIR}/made")
add_custom_command(
  OUTPUT "${made}/stamp"
  COMMAND "${CMAKE_COMMAND}"
    "-DNEXUS=$<TARGET_FILE:nexus_cli>" "-DOUTPUT=${made}"
    -P "${PROJECT_SOURCE_DIR}/cmake/MakePages.cmake"
  DEPENDS nexus_cli "${PROJECT_SOURCE_DIR}/cmake/MakePages.cmake"
  COMMENT "Manual pages, completion, example config"
  VERBATIM)
add_custom_target(nexus_pages ALL DEPENDS "${made}/stamp")
install(DIRECTORY "${made}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${made}/nexus.bash" RENAME nexus
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${made}/_nexus"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${made}/nexus.fish"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES "${made}/config.toml"
  "${PROJECT_SOURCE_DIR}/packaging/api-key.conf"
  "${PROJECT_SOURCE_DIR}/packaging/mcp-servers.conf"
  DESTINATION "${doc_dir}/examples")

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  # Names the program's path, which is known when it is installed. systemd looks
  # in lib/ whatever the machine's library folder is called.
  install(CODE "
    set(bindir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/packaging/nexus.service.in\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/nexus.service\"
      @ONLY)")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nexus)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
# Whoever publishes a package is its maintainer.
set(NEXUS_PACKAGE_CONTACT "The Nexus authors <nexus@example.org>" CACHE STRING
    "Maintainer of the Debian package")
set(CPACK_PACKAGE_CONTACT "${NEXUS_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "tool calls of local language models, routed and spliced")
# Behind the summary, which CPack puts in front.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Nexus picks the right tool outside the model's context and puts the tool's
schema into the context as ready KV-cache cells instead of text.
.
The package holds the program with llama.cpp linked in, the routing encoder, a
systemd unit that is not started by itself, manual pages and shell completion.
Model weights are brought by 'nexus pull'.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION misc)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Weights come by pip; MCP servers usually run on node.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip, curl, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nodejs")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  "${PROJECT_SOURCE_DIR}/packaging/prerm"
  "${PROJECT_SOURCE_DIR}/packaging/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# What only a Debian package wants: compressed pages and a changelog.
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/DebianFiles.cmake")
include(CPack)
