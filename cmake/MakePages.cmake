# Runs the program for what it says about itself.
#
#   cmake -DNEXUS=path/of/nexus -DOUTPUT=folder -P MakePages.cmake
file(REMOVE_RECURSE "${OUTPUT}")
file(MAKE_DIRECTORY "${OUTPUT}")
# Whoever builds may have settings of their own; the pages show the defaults.
set(run "${CMAKE_COMMAND}" -E env --unset=NEXUS_CONFIG
  XDG_CONFIG_HOME=/nonexistent HOME=/nonexistent "${NEXUS}")
execute_process(COMMAND ${run} man --dir "${OUTPUT}/man1"
  COMMAND_ERROR_IS_FATAL ANY)
foreach(pair bash=nexus.bash zsh=_nexus fish=nexus.fish)
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 shell)
  list(GET pair 1 file)
  execute_process(COMMAND ${run} completion ${shell}
    OUTPUT_FILE "${OUTPUT}/${file}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${run} config OUTPUT_FILE "${OUTPUT}/config.toml"
  COMMAND_ERROR_IS_FATAL ANY)
file(WRITE "${OUTPUT}/stamp" "")
