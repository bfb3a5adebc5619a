/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all parts share: waiting for sockets, whole messages, giving up. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_KERNELS 17 /* a target and sixteen hosts */

/* A descriptor to wait for, and what to do when it can be read. */
struct watch {
	int fd;
	void (*ready)(struct watch *watch);
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

void watch_add(struct watch *watch);
/* Forget and close the descriptor. */
void watch_close(struct watch *watch);
/* Wait, and handle what has come. */
void watch_once(void);

/* A listening Unix socket of this name in the working directory. */
int listen_at(const char *name);
/* All of it: false when the other end is gone. Descriptors beyond `fds` are closed. */
bool receive(int fd, void *data, size_t size, int *fds, unsigned int count);
bool send_all(int fd, const void *data, size_t size, const int *fds, unsigned int count);

/* One line on standard error, and exit code 1. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
