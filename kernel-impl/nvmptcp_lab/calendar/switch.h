/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SWITCH_H
#define SWITCH_H

/* A device at the socket NAME-pathI for each kernel and path, the paths' switches between them. */
void switch_open(char *const names[], unsigned int kernels, unsigned int paths);

#endif
