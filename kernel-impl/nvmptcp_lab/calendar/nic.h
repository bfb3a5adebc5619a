/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NIC_H
#define NIC_H

#include "watch.h"

#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

#define MAX_FRAME (128 * 1024) /* bytes, a GSO frame of 64 KiB with its headers among them */

struct queue {
	unsigned int length, done; /* entries; how many available ones have been taken */
	struct vring_desc *descriptors;
	struct vring_avail *available;
	struct vring_used *used;
	bool enabled;
};

/* A kernel's end of a vhost-user connection: a virtio-net device (virtio 1.x, split rings). */
struct nic {
	struct watch listener, watch;
	const char *name; /* of its kernel */
	unsigned int kernel, path; /* from 0 */
	int call_fd; /* to the kernel: interrupts */
	char *memory; /* the kernel's, mapped */
	uint64_t memory_start, memory_length; /* in its physical addresses */
	struct queue queues[2];
	struct waiting *first, **last; /* frames that the kernel has no buffer for yet */
	unsigned int waiting;
};

enum { RECEIVE, TRANSMIT };

void nic_open(struct nic *nic);
/* Copy a frame, its virtio_net_hdr_v1 in front, to the kernel, and interrupt it. */
void nic_deliver(struct nic *nic, void *frame, size_t size);

/* What a kernel has sent. */
void switch_frame(struct nic *from, void *frame, size_t size);

#endif
