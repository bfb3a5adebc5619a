// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vhost-user (QEMU, docs/interop/vhost-user.rst), as far as Linux's virtio_uml driver speaks it,
 * with in-band notifications: a kernel that kicks waits until we have done all that follows,
 * and one that is interrupted has made its request to the calendar when it answers.
 */
#include "nic.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	GET_FEATURES = 1, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 5, SET_VRING_NUM = 8,
	SET_VRING_ADDR, SET_VRING_BASE, GET_PROTOCOL_FEATURES = 15, SET_PROTOCOL_FEATURES,
	SET_VRING_ENABLE = 18, SET_SLAVE_REQ_FD = 21, GET_CONFIG = 24, SET_CONFIG, VRING_KICK = 35,
};
enum { SLAVE_VRING_CALL = 4 };

#define PROTOCOL_VERSION 1u
#define FLAG_REPLY (1u << 2)
#define FLAG_NEED_REPLY (1u << 3)

#define F(bit) (1ull << (bit))
#define VHOST_F_PROTOCOL_FEATURES 30
/* Reply ACKs, interrupts by message, configuration, kicks by message. */
#define PROTOCOL_FEATURES (F(3) | F(5) | F(9) | F(14))
/* Segmentation offload both ways, as between the ends of a veth pair. */
#define FEATURES (F(VIRTIO_F_VERSION_1) | F(VHOST_F_PROTOCOL_FEATURES) | F(VIRTIO_NET_F_MAC) | \
		  F(VIRTIO_RING_F_INDIRECT_DESC) | F(VIRTIO_NET_F_CSUM) | \
		  F(VIRTIO_NET_F_GUEST_CSUM) | F(VIRTIO_NET_F_HOST_TSO4) | \
		  F(VIRTIO_NET_F_HOST_TSO6) | F(VIRTIO_NET_F_GUEST_TSO4) | \
		  F(VIRTIO_NET_F_GUEST_TSO6) | F(VIRTIO_NET_F_HOST_ECN) | \
		  F(VIRTIO_NET_F_GUEST_ECN))

#define MAX_WAITING 100000 /* frames: a kernel that takes none is broken */

struct region {
	uint64_t guest_address, length, user_address, offset;
} __attribute__((packed));

struct vhost_message {
	uint32_t request, flags, size;
	union {
		uint64_t number;
		struct {
			uint32_t index, value;
		} state;
		struct {
			uint32_t index, flags;
			uint64_t descriptors, used, available, log;
		} addresses;
		struct {
			uint32_t count, padding;
			struct region first;
		} memory;
		struct {
			uint32_t offset, size, flags;
			unsigned char bytes[256];
		} config;
	};
} __attribute__((packed));

#define HEADER offsetof(struct vhost_message, number)

struct waiting {
	struct waiting *next;
	size_t size;
	char frame[];
};

static void nic_close(struct nic *nic)
{
	if (nic->watch.fd < 0)
		return;
	watch_close(&nic->watch);
	if (nic->call_fd >= 0)
		close(nic->call_fd);
	nic->call_fd = -1;
	memset(nic->queues, 0, sizeof(nic->queues));
}

/* Where a physical address of the kernel lies in our memory. */
static void *at(struct nic *nic, uint64_t address, uint64_t length)
{
	uint64_t offset = address - nic->memory_start;

	if (!nic->memory || address < nic->memory_start || offset > nic->memory_length ||
	    length > nic->memory_length - offset)
		give_up("%s, path %u: address %#llx is outside of the kernel's memory", nic->name,
			nic->path + 1, (unsigned long long)address);
	return nic->memory + offset;
}

/* Interrupt the kernel; back when its calendar request is made. */
static void call(struct nic *nic, unsigned int index)
{
	struct vhost_message message = { SLAVE_VRING_CALL, PROTOCOL_VERSION | FLAG_NEED_REPLY,
					 sizeof(message.state), .state = { index, 0 } };

	if (nic->queues[index].available->flags & VRING_AVAIL_F_NO_INTERRUPT || nic->call_fd < 0)
		return;
	if (!send_all(nic->call_fd, &message, HEADER + message.size, NULL, 0) ||
	    !receive(nic->call_fd, &message, HEADER + sizeof(message.number), NULL, 0))
		nic_close(nic); /* it died; the calendar notices */
}

static bool available(const struct queue *queue)
{
	return queue->enabled && queue->available && (uint16_t)queue->done !=
		__atomic_load_n(&queue->available->idx, __ATOMIC_ACQUIRE);
}

static void finish(struct queue *queue, uint16_t head, uint32_t written)
{
	uint16_t index = queue->used->idx;

	queue->used->ring[index % queue->length] = (struct vring_used_elem){ head, written };
	__atomic_store_n(&queue->used->idx, index + 1, __ATOMIC_RELEASE);
}

/* Copy between `data` and the next available buffer, which this takes. Returns bytes. */
static size_t copy(struct nic *nic, struct queue *queue, char *data, size_t size, bool to_kernel,
		   uint16_t *head)
{
	struct vring_desc *table = queue->descriptors, *entry;
	unsigned int length = queue->length, index, steps = 0;
	size_t done = 0;

	*head = index = queue->available->ring[queue->done++ % queue->length];
	for (;; index = entry->next) {
		if (index >= length || steps++ > queue->length)
			give_up("%s, path %u: a broken chain of descriptors", nic->name, nic->path + 1);
		entry = &table[index];
		if (entry->flags & VRING_DESC_F_INDIRECT) {
			length = entry->len / sizeof(*table);
			table = at(nic, entry->addr, entry->len);
			entry = &table[0];
		}
		if (!!(entry->flags & VRING_DESC_F_WRITE) == to_kernel) {
			size_t part = entry->len < size - done ? entry->len : size - done;
			char *theirs = at(nic, entry->addr, part);

			memcpy(to_kernel ? theirs : data + done, to_kernel ? data + done : theirs, part);
			done += part;
		}
		if (!(entry->flags & VRING_DESC_F_NEXT))
			return done;
	}
}

static void transmit(struct nic *nic)
{
	static char frame[MAX_FRAME];
	struct queue *queue = &nic->queues[TRANSMIT];
	bool some = false;

	while (available(queue)) {
		uint16_t head;
		size_t size = copy(nic, queue, frame, sizeof(frame), false, &head);

		finish(queue, head, 0);
		/* what a receiver without VIRTIO_NET_F_MRG_RXBUF has to find */
		((struct virtio_net_hdr_v1 *)frame)->num_buffers = 1;
		switch_frame(nic, frame, size);
		some = true;
	}
	if (some)
		call(nic, TRANSMIT);
}

static void put(struct nic *nic, void *frame, size_t size)
{
	struct queue *queue = &nic->queues[RECEIVE];
	uint16_t head;

	if (copy(nic, queue, frame, size, true, &head) < size)
		give_up("%s, path %u: a frame of %zu bytes is longer than the kernel's buffer",
			nic->name, nic->path + 1, size);
	finish(queue, head, size);
}

void nic_deliver(struct nic *nic, void *frame, size_t size)
{
	struct queue *queue = &nic->queues[RECEIVE];
	struct waiting *entry;

	if (!queue->enabled) /* not up yet, or gone: as on an unplugged cable */
		return;
	if (!nic->waiting && available(queue)) {
		put(nic, frame, size);
		call(nic, RECEIVE);
		return;
	}
	entry = malloc(sizeof(*entry) + size);
	if (!entry || nic->waiting == MAX_WAITING)
		give_up("%s, path %u: the kernel takes no frames", nic->name, nic->path + 1);
	entry->next = NULL;
	entry->size = size;
	memcpy(entry->frame, frame, size);
	*nic->last = entry;
	nic->last = &entry->next;
	nic->waiting++;
	queue->used->flags = 0; /* we want to know of new buffers */
}

static void give_waiting(struct nic *nic)
{
	struct queue *queue = &nic->queues[RECEIVE];
	bool some = false;

	while (nic->first && available(queue)) {
		struct waiting *entry = nic->first;

		put(nic, entry->frame, entry->size);
		nic->first = entry->next;
		nic->waiting--;
		free(entry);
		some = true;
	}
	if (!nic->first) {
		nic->last = &nic->first;
		queue->used->flags = VRING_USED_F_NO_NOTIFY;
	}
	if (some)
		call(nic, RECEIVE);
}

static void set_memory(struct nic *nic, const struct vhost_message *message, int fd)
{
	const struct region *region = &message->memory.first;

	if (message->memory.count != 1 || fd < 0)
		give_up("%s, path %u: %u regions of memory, not one", nic->name, nic->path + 1,
			message->memory.count);
	if (nic->memory)
		munmap(nic->memory, nic->memory_length);
	nic->memory_start = region->guest_address;
	nic->memory_length = region->length;
	nic->memory = mmap(NULL, region->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   region->offset);
	if (nic->memory == MAP_FAILED)
		give_up("%s: the kernel's memory: %s", nic->name, strerror(errno));
}

static void set_addresses(struct nic *nic, const struct vhost_message *message)
{
	struct queue *queue = &nic->queues[message->addresses.index];

	queue->descriptors = at(nic, message->addresses.descriptors,
				queue->length * sizeof(*queue->descriptors));
	queue->available = at(nic, message->addresses.available,
			      sizeof(*queue->available) + queue->length * sizeof(uint16_t));
	queue->used = at(nic, message->addresses.used, sizeof(*queue->used) +
			 queue->length * sizeof(struct vring_used_elem));
	/* New receive buffers needn't be told of: we look when a frame comes. */
	if (message->addresses.index == RECEIVE)
		queue->used->flags = VRING_USED_F_NO_NOTIFY;
}

/* Fill in the answer, for a request that has one of its own. Returns whether it has. */
static bool answer(struct nic *nic, struct vhost_message *message)
{
	/* locally administered; the kernels' addresses on a path differ, and those of the paths */
	struct virtio_net_config config = {
		.mac = { 2, 0, 0, 0, nic->path + 1, nic->kernel + 1 } };
	size_t wanted;

	switch (message->request) {
	case GET_FEATURES:
		message->number = FEATURES;
		break;
	case GET_PROTOCOL_FEATURES:
		message->number = PROTOCOL_FEATURES;
		break;
	case GET_CONFIG:
		wanted = message->config.size;
		memset(message->config.bytes, 0, sizeof(message->config.bytes));
		memcpy(message->config.bytes, &config,
		       wanted < sizeof(config) ? wanted : sizeof(config));
		return true;
	default:
		return false;
	}
	message->size = sizeof(message->number);
	return true;
}

static void handle(struct nic *nic, struct vhost_message *message, int fd)
{
	unsigned int index = message->state.index; /* first in all messages that have one */

	if (message->request == SET_VRING_NUM || message->request == SET_VRING_ADDR ||
	    message->request == SET_VRING_ENABLE || message->request == VRING_KICK) {
		if (index > TRANSMIT)
			give_up("%s, path %u: there is no queue %u", nic->name, nic->path + 1, index);
	}
	switch (message->request) {
	case SET_FEATURES:
		if (!(message->number & F(VIRTIO_F_VERSION_1)))
			give_up("%s, path %u: the driver is older than virtio 1.0", nic->name,
				nic->path + 1);
		break;
	case SET_OWNER:
	case SET_PROTOCOL_FEATURES:
	case SET_VRING_BASE:
	case SET_CONFIG:
		break;
	case SET_SLAVE_REQ_FD:
		nic->call_fd = fd;
		break;
	case SET_MEM_TABLE:
		set_memory(nic, message, fd);
		break;
	case SET_VRING_NUM:
		nic->queues[index].length = message->state.value;
		nic->queues[index].done = 0;
		break;
	case SET_VRING_ADDR:
		set_addresses(nic, message);
		break;
	case SET_VRING_ENABLE:
		nic->queues[index].enabled = message->state.value;
		break;
	case VRING_KICK:
		if (index == TRANSMIT)
			transmit(nic);
		else
			give_waiting(nic);
		break;
	default:
		give_up("%s, path %u: request %u is unknown", nic->name, nic->path + 1,
			message->request);
	}
	if (fd >= 0 && fd != nic->call_fd)
		close(fd);
}

static void from_driver(struct watch *watch)
{
	struct nic *nic = container_of(watch, struct nic, watch);
	struct vhost_message message;
	bool own_answer;
	int fds[1];

	if (!receive(watch->fd, &message, HEADER, fds, 1)) {
		nic_close(nic);
		return;
	}
	if (message.size > sizeof(message) - HEADER)
		give_up("%s, path %u: request %u has %u bytes", nic->name, nic->path + 1,
			message.request, message.size);
	if (!receive(watch->fd, (char *)&message + HEADER, message.size, NULL, 0)) {
		nic_close(nic);
		return;
	}
	own_answer = answer(nic, &message);
	if (!own_answer) {
		handle(nic, &message, fds[0]);
		message.size = sizeof(message.number);
		message.number = 0; /* well done */
	}
	if (own_answer || message.flags & FLAG_NEED_REPLY) {
		message.flags = PROTOCOL_VERSION | FLAG_REPLY;
		if (watch->fd >= 0 &&
		    !send_all(watch->fd, &message, HEADER + message.size, NULL, 0))
			nic_close(nic);
	}
}

static void new_driver(struct watch *watch)
{
	struct nic *nic = container_of(watch, struct nic, listener);
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (nic->watch.fd >= 0)
		give_up("%s, path %u: a second driver", nic->name, nic->path + 1);
	nic->watch = (struct watch){ fd, from_driver };
	watch_add(&nic->watch);
}

void nic_open(struct nic *nic)
{
	char name[64];

	nic->call_fd = nic->watch.fd = -1;
	nic->last = &nic->first;
	snprintf(name, sizeof(name), "%s-path%u", nic->name, nic->path + 1);
	nic->listener = (struct watch){ listen_at(name), new_driver };
	watch_add(&nic->listener);
}
