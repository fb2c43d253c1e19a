/* Functions for CPUs whose registers have one width: clones of them that no CPU would run are left out, which would
 * otherwise be half of a module. PMB_HAS_256 says whether those for 256 bits run. */
#ifndef PYMCBOOST_WIDTHS_H
#define PYMCBOOST_WIDTHS_H

#include "lanes.h"

#ifdef PMB_HAS_CLONES
#define PMB_ONLY_512 __attribute__((target("arch=x86-64-v4")))
#define PMB_RUNS_512 __builtin_cpu_supports("x86-64-v4")
#define PMB_ONLY_256 __attribute__((target("avx2")))
#define PMB_BELOW_512 __attribute__((target_clones("default", "avx2")))
#define PMB_BELOW_256
#else
#define PMB_ONLY_512 PMB_CLONES
#define PMB_RUNS_512 PMB_HAS_512
#define PMB_ONLY_256 PMB_CLONES
#define PMB_BELOW_512 PMB_CLONES
#define PMB_BELOW_256 PMB_CLONES
#endif

#endif
