# Files that a program carries inside: each as it is, and compressed by gzip.
#
#   embed_files(TARGET SYMBOL FILE...)
#
# makes a C source with `const struct embedded SYMBOL[]` (base/embedded.h), a row for each file and an
# empty one at the end. A row's name is the name of the file without its folder.
function(embed_files target symbol)
  set(folder ${PROJECT_BINARY_DIR}/embedded/${symbol})
  set(source ${folder}.c)
  set(labels "")
  set(rows "")
  set(compressed_files "")
  set(number 0)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    set(compressed ${folder}/${name}.gz)
    add_custom_command(OUTPUT ${compressed} DEPENDS ${file} VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND sh -c "gzip -9nc \"$1\" >\"$2\"" sh ${file} ${compressed})
    list(APPEND compressed_files ${compressed})
    string(APPEND labels "EMBED(${symbol}_${number}, \"${file}\")\nEMBED(${symbol}_${number}_gzip, \"${compressed}\")\n")
    string(APPEND rows "    {.name = \"${name}\", .begin = ${symbol}_${number}, .end = ${symbol}_${number}_end,\n"
      "     .gzip_begin = ${symbol}_${number}_gzip, .gzip_end = ${symbol}_${number}_gzip_end},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(CONCAT text "/* Made by cmake/embed.cmake. */\n#include \"base/embedded.h\"\n\n"
    "#define EMBED(label, path) \\\n"
    "    extern const char label[], label##_end[]; \\\n"
    "    __asm__(\".pushsection .rodata\\n\" #label \":\\n.incbin \\\"\" path \"\\\"\\n\" #label \"_end:\\n.popsection\\n\");\n"
    ${labels} "\nconst struct embedded ${symbol}[] = {\n" ${rows} "    {0},\n};\n")
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${ARGN};${compressed_files}")
  target_sources(${target} PRIVATE ${source})
endfunction()
