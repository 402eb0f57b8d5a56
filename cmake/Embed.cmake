# flashscope_embed(TARGET FUNCTION FILES...): puts files into the program. Generates a header
# "embedded/FUNCTION.h" that declares
#   std::span<const std::byte> FUNCTION(std::string_view file_name);   // empty span: no such file
# The bytes come in through the assembler's .incbin, so that size costs no compile time.
function(flashscope_embed target function)
  set(header ${CMAKE_BINARY_DIR}/generated/embedded/${function}.h)
  set(source ${CMAKE_BINARY_DIR}/generated/embedded/${function}.cpp)
  set(externs "")
  set(cases "")
  set(number 0)
  set(paths "")
  foreach(file ${ARGN})
    get_filename_component(path ${file} ABSOLUTE)
    get_filename_component(file_name ${file} NAME)
    set(symbol flashscope_${function}_${number})
    string(APPEND externs
      "asm(\".section .rodata\\n.balign 64\\n${symbol}:\\n.incbin \\\"${path}\\\"\\n${symbol}_end:\\n.byte 0\\n.text\\n\");\n"
      "extern const std::byte ${symbol}[] asm(\"${symbol}\");\nextern const std::byte ${symbol}_end[] asm(\"${symbol}_end\");\n")
    string(APPEND cases "  if (name == \"${file_name}\") return {${symbol}, ${symbol}_end};\n")
    list(APPEND paths ${path})
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT
"#pragma once\n#include <cstddef>\n#include <span>\n#include <string_view>\nnamespace flashscope {\n// The embedded file of that name, or an empty span.\nstd::span<const std::byte> @function@(std::string_view name);\n}  // namespace flashscope\n")
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"embedded/@function@.h\"\n@externs@namespace flashscope {\nstd::span<const std::byte> @function@([[maybe_unused]] std::string_view name) {\n@cases@  return {};\n}\n}  // namespace flashscope\n")
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES OBJECT_DEPENDS "${paths}")
endfunction()
