/* What kernels of tests/run must compute, written plainly in C: for meanings that all executors could misread alike. */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include "tools/argument.h"

/* Changes the arrays in place into what must be there after the run. False if an argument that it needs is missing. */
typedef bool (*reference_fn)(argument_list *args);
reference_fn reference_named(const char *name); /* NULL if there is none */

#endif
