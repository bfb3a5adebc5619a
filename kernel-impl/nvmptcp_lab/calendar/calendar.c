// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One virtual clock for several User-Mode Linux kernels: the protocol of Linux,
 * include/uapi/linux/um_timetravel.h (version 2, with shared memory).
 *
 * One kernel runs at a time: that with the earliest request. It may go on up to the next one's
 * request (free_until), which a frame can bring forward. So none can get behind another's clock,
 * and what happens doesn't depend on how fast the machine runs whom.
 */
#include "calendar.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACK, START, REQUEST, WAIT, GET, UPDATE, RUN, FREE_UNTIL, GET_TOD };

struct message {
	uint32_t operation;
	uint32_t sequence; /* an ACK has that of the message */
	uint64_t time; /* ns */
};

#define VERSION 2
#define FLAG_REQUESTED 1u /* request_time is valid */
#define FOREVER ((uint64_t)INT64_MAX) /* what an idle kernel without timers asks for */

struct client {
	uint32_t capabilities;
	uint32_t flags;
	uint64_t request_time; /* ns */
	uint64_t name;
	char reserved[104];
};

/* Who runs writes current_time; all lower free_until by their requests; we write the rest. */
static struct shared {
	union {
		struct {
			uint32_t version;
			uint32_t length;
			uint64_t free_until;
			uint64_t current_time;
			uint16_t running;
			uint16_t clients_length;
		};
		char header[4096];
	};
	struct client clients[MAX_KERNELS + 1]; /* by number; 0 is ours */
} *shared;

static struct kernel {
	struct watch watch;
	enum { ABSENT, CONNECTED, RUNNING, WAITING, GONE } state;
	uint32_t start_sequence;
	uint64_t turn; /* when it ran last, counted in turns */
} kernels[MAX_KERNELS + 1];

static struct watch listener;
static unsigned int kernel_count;
static uint64_t wall_clock_start, turns;
static int shared_fds[2]; /* the memory, and a log that nobody writes to */

static void next_turn(void);

static unsigned int in_state(int state)
{
	unsigned int found = 0;

	for (unsigned int id = 1; id <= kernel_count; id++)
		found += kernels[id].state == (unsigned int)state;
	return found;
}

bool calendar_over(void)
{
	return in_state(GONE) == kernel_count;
}

static void leave(struct kernel *kernel)
{
	watch_close(&kernel->watch);
	kernel->state = GONE;
	next_turn();
}

/* The earliest request of those who wait, but for `except`; of equals, that who waits longest. */
static unsigned int earliest(unsigned int except)
{
	unsigned int found = 0;

	for (unsigned int id = 1; id <= kernel_count; id++) {
		uint64_t mine = shared->clients[id].request_time;
		uint64_t best = shared->clients[found].request_time;

		if (id == except || kernels[id].state != WAITING ||
		    !(shared->clients[id].flags & FLAG_REQUESTED))
			continue;
		if (!found || mine < best || (mine == best && kernels[id].turn < kernels[found].turn))
			found = id;
	}
	return found;
}

/* Give a turn to whose it is, unless somebody has it, or some are still to come. */
static void next_turn(void)
{
	struct message message = { .operation = RUN };
	unsigned int id, other;

	if (in_state(RUNNING) || in_state(ABSENT) || calendar_over())
		return;
	/* All start at time 0: the first waits for its first tick while the others boot. */
	for (id = 1; id <= kernel_count && kernels[id].state != CONNECTED; id++)
		;
	if (id <= kernel_count) {
		message.operation = ACK;
		message.sequence = kernels[id].start_sequence;
		message.time = id;
	} else {
		id = earliest(0);
		if (!id || shared->clients[id].request_time >= FOREVER)
			give_up("all kernels sleep for ever: nothing would happen any more");
		if (shared->clients[id].request_time < shared->current_time)
			give_up("kernel %u asks for %" PRIu64 " ns, but it is %" PRIu64 " ns already", id,
				shared->clients[id].request_time, shared->current_time);
		shared->current_time = shared->clients[id].request_time;
		other = earliest(id);
		shared->free_until = other ? shared->clients[other].request_time : FOREVER;
		message.time = shared->current_time;
	}
	shared->running = id;
	kernels[id].state = RUNNING;
	kernels[id].turn = ++turns;
	if (!send_all(kernels[id].watch.fd, &message, sizeof(message), shared_fds,
		      message.operation == ACK ? 2 : 0))
		leave(&kernels[id]);
}

static void from_kernel(struct watch *watch)
{
	struct kernel *kernel = container_of(watch, struct kernel, watch);
	unsigned int id = kernel - kernels;
	struct message message;

	if (!receive(watch->fd, &message, sizeof(message), NULL, 0)) {
		leave(kernel);
		return;
	}
	switch (message.operation) {
	case WAIT: /* no ACK, with shared memory */
		if (kernel->state != RUNNING)
			give_up("kernel %u waits, but it wasn't its turn", id);
		kernel->state = WAITING;
		next_turn();
		return;
	case GET:
		message.time = shared->current_time;
		break;
	case GET_TOD:
		message.time = wall_clock_start + shared->current_time;
		break;
	default:
		give_up("kernel %u sends operation %u, which one with shared memory doesn't", id,
			message.operation);
	}
	message.operation = ACK;
	if (!send_all(watch->fd, &message, sizeof(message), NULL, 0))
		leave(kernel);
}

static void new_kernel(struct watch *watch)
{
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);
	struct message message;

	if (fd < 0 || !receive(fd, &message, sizeof(message), NULL, 0)) {
		close(fd);
		return;
	}
	if (message.operation != START || !message.time || message.time > kernel_count ||
	    kernels[message.time].state != ABSENT)
		give_up("a kernel that isn't awaited came: number %" PRIu64, message.time);
	kernels[message.time] = (struct kernel){
		.watch = { fd, from_kernel }, .state = CONNECTED,
		.start_sequence = message.sequence,
	};
	watch_add(&kernels[message.time].watch);
	next_turn();
}

void calendar_open(const char *name, unsigned int count, uint64_t start_ns)
{
	kernel_count = count;
	wall_clock_start = start_ns;
	shared_fds[0] = memfd_create("calendar", MFD_CLOEXEC);
	shared_fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (shared_fds[0] < 0 || shared_fds[1] < 0 || ftruncate(shared_fds[0], sizeof(*shared)))
		give_up("shared memory: %s", strerror(errno));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fds[0], 0);
	if (shared == MAP_FAILED)
		give_up("shared memory: %s", strerror(errno));
	shared->version = VERSION;
	shared->length = sizeof(*shared);
	shared->clients_length = MAX_KERNELS + 1;
	listener = (struct watch){ listen_at(name), new_kernel };
	watch_add(&listener);
}
