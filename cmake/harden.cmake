# What the compiler and the linker can do against memory errors, where they know how:
#
#   _FORTIFY_SOURCE=3           libc calls check the size of what they write to; needs an optimised build, and
#                               is left out under sanitizers, which check more than it does
#   stack protector             a function that has an array does not return over an overwritten canary
#   stack clash protection      a large frame touches its pages in order and cannot jump over the guard page
#   control flow (CET, BTI)     an indirect jump lands only where one is meant to
#   PIE, relro, now             addresses are random, and the tables of the linker read-only before main()
#
# tests/tidy/test_hardened.py reads them back from the programs.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

set(WRIT_HARDEN)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "writ_has${flag}" known)
  check_c_compiler_flag("-Werror ${flag}" ${known})
  if(${known})
    list(APPEND WRIT_HARDEN ${flag})
  endif()
endforeach()
if(NOT WRIT_SANITIZE)
  list(APPEND WRIT_HARDEN $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
       $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=3>)
endif()

set(WRIT_HARDEN_LINK)
foreach(flag -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  string(MAKE_C_IDENTIFIER "writ_has${flag}" known)
  check_linker_flag(C "${flag}" ${known})
  if(${known})
    list(APPEND WRIT_HARDEN_LINK ${flag})
  endif()
endforeach()

# Position independent in each form: what a program is made of for a program, a shared library for itself.
function(writ_harden name)
  target_compile_options(${name} PRIVATE ${WRIT_HARDEN})
  get_target_property(type ${name} TYPE)
  if(NOT type STREQUAL SHARED_LIBRARY)
    target_compile_options(${name} PRIVATE -fPIE)
  endif()
  if(type STREQUAL EXECUTABLE)
    target_link_options(${name} PRIVATE -pie ${WRIT_HARDEN_LINK})
  endif()
endfunction()
