// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One virtual clock for several User-Mode Linux kernels, and the network between them.
 *
 * calendar PATHS START NAME... makes in the working directory the socket `clock` for
 * time-travel=ext:N:clock, N counting the names from 1, and NAME-pathI for
 * virtio_uml.device=NAME-pathI:1. START: Unix time in ns that the kernels' clocks start at.
 * Says `ready` when the sockets are there; exit code 0 when all kernels have come and gone, 1
 * with a line on standard error when something is wrong.
 */
#include "calendar.h"
#include "switch.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char *argv[])
{
	unsigned int kernels = argc > 3 ? argc - 3 : 0;
	unsigned long paths = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (!kernels || kernels > MAX_KERNELS || !paths || paths > 255) {
		fprintf(stderr, "usage: calendar PATHS START NAME..., up to %d names\n", MAX_KERNELS);
		return 2;
	}
	calendar_open("clock", kernels, strtoull(argv[2], NULL, 10));
	switch_open(argv + 3, kernels, paths);
	puts("ready");
	fflush(stdout);
	while (!calendar_over())
		watch_once();
	return 0;
}
