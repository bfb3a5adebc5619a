// SPDX-License-Identifier: GPL-2.0-or-later
/* A learning switch for each path: all that kernels send there comes to the others, at once. */
#include "switch.h"
#include "nic.h"

#include <linux/if_ether.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ADDRESSES 64

struct path {
	struct nic nics[MAX_KERNELS];
	struct {
		unsigned char address[ETH_ALEN];
		struct nic *nic;
	} known[MAX_ADDRESSES];
	unsigned int known_length;
};

static struct path *paths;
static unsigned int kernel_count;

static struct nic *find(const struct path *path, const unsigned char *address)
{
	for (unsigned int entry = 0; entry < path->known_length; entry++)
		if (!memcmp(path->known[entry].address, address, ETH_ALEN))
			return path->known[entry].nic;
	return NULL;
}

void switch_frame(struct nic *from, void *frame, size_t size)
{
	const struct ethhdr *header =
		(const void *)((char *)frame + sizeof(struct virtio_net_hdr_v1));
	struct path *path = &paths[from->path];
	struct nic *to;

	if (size < sizeof(struct virtio_net_hdr_v1) + sizeof(*header))
		give_up("%s sends a frame of %zu bytes, its virtio header included", from->name, size);
	if (!find(path, header->h_source) && path->known_length < MAX_ADDRESSES) {
		memcpy(path->known[path->known_length].address, header->h_source, ETH_ALEN);
		path->known[path->known_length++].nic = from;
	}
	to = header->h_dest[0] & 1 ? NULL : find(path, header->h_dest);
	if (to) {
		if (to != from)
			nic_deliver(to, frame, size);
		return;
	}
	for (unsigned int kernel = 0; kernel < kernel_count; kernel++)
		if (kernel != from->kernel)
			nic_deliver(&path->nics[kernel], frame, size);
}

void switch_open(char *const names[], unsigned int kernels, unsigned int count)
{
	kernel_count = kernels;
	paths = calloc(count, sizeof(*paths));
	if (!paths)
		give_up("no memory");
	for (unsigned int path = 0; path < count; path++)
		for (unsigned int kernel = 0; kernel < kernels; kernel++) {
			struct nic *nic = &paths[path].nics[kernel];

			*nic = (struct nic){ .name = names[kernel], .kernel = kernel, .path = path };
			nic_open(nic);
		}
}
