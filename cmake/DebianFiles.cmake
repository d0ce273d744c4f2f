# Run by CPack on the files of the package, before they are packed.
set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
file(GLOB pages "${root}/man/man1/*.1")
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9n "${page}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Debian has the Apache licence elsewhere: the copyright file points there.
file(REMOVE "${root}/doc/nexus/LICENSE")
# Reproducible if SOURCE_DATE_EPOCH is set, as CMake's TIMESTAMP honours it.
string(TIMESTAMP day "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${root}/doc/nexus/changelog"
"${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=low

  * Built from the source tree by scripts/package.

 -- ${CPACK_PACKAGE_CONTACT}  ${day}
")
execute_process(COMMAND gzip -9n "${root}/doc/nexus/changelog"
  COMMAND_ERROR_IS_FATAL ANY)
# CPack installs into a folder of its own, which is not where the package goes.
set(unit "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib/systemd/system/nexus.service")
file(READ "${unit}" text)
string(REGEX REPLACE "ExecStart=[^ ]+" "ExecStart=/usr/bin/nexus" text "${text}")
file(WRITE "${unit}" "${text}")
# Installers run with the umask of whoever built.
execute_process(COMMAND chmod -R u=rwX,go=rX
  "${CPACK_TEMPORARY_INSTALL_DIRECTORY}" COMMAND_ERROR_IS_FATAL ANY)
