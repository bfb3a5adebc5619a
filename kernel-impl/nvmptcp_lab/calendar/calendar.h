/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CALENDAR_H
#define CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

/* Listen for so many kernels at the socket `name`; their wall clocks start at start_ns (Unix). */
void calendar_open(const char *name, unsigned int count, uint64_t start_ns);
/* Whether all of them have come and gone. */
bool calendar_over(void);

#endif
