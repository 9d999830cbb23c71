/* argument: what `--arg NAME=..` gives a kernel: arrays from specs, scalars from expressions over the other arguments,
   in any order. SPEC/[extents] is an array that the kernel takes as a tensor descriptor with blocks of these extents;
   SPEC/[extents]:nan reads NaN outside; where the kernel says all that, SPEC alone will do. For `tkc run` and the
   tests. */
#ifndef TOOLS_ARGUMENT_H
#define TOOLS_ARGUMENT_H

#include "tools/array.h"

typedef struct argument {
  char *name, *text; /* malloc'd; without the block */
  bool is_array, ready, in_work;
  array host;    /* is_array */
  tk_arg scalar; /* else */
  char *block;   /* "[64, 32]", malloc'd; NULL: none */
  bool pads_nan; /* with a block */
  int block_rank;
  int64_t block_shape[TK_MAX_DESCRIPTOR_RANK];
} argument;

typedef struct argument_list {
  argument *at;
  int n, cap;
  uint64_t seed; /* an array's random numbers depend on it and on the array's place among the arguments */
} argument_list;

/* "NAME=VALUE". On failure returns false and writes why. */
bool argument_add(argument_list *l, const char *text, char *message, size_t size);
argument *argument_named(const argument_list *l, const char *name); /* NULL if there is none */
/* Makes an argument and what it depends on. A scalar is a float if it reads as one and not as an integer; True and
   False are bools; all else is an integer expression. */
bool argument_evaluate(argument_list *l, argument *a, char *message, size_t size);
/* What a launch takes for an array that lies in `b`; *d is the place for a descriptor. */
tk_arg argument_of_buffer(const argument *a, const tk_buffer *b, tk_descriptor *d);
/* For tk_evaluate: integers, x.shape[i], x.stride(i), x.numel(). user is the list. */
bool argument_lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value);
void argument_free(argument_list *l);

#endif
