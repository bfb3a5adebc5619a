// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_FDS 2

static int poller = -1;

void give_up(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void watch_add(struct watch *watch)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = watch };

	if (poller < 0)
		poller = epoll_create1(EPOLL_CLOEXEC);
	if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, watch->fd, &event))
		give_up("epoll: %s", strerror(errno));
}

void watch_close(struct watch *watch)
{
	epoll_ctl(poller, EPOLL_CTL_DEL, watch->fd, NULL);
	close(watch->fd);
	watch->fd = -1;
}

void watch_once(void)
{
	struct epoll_event event;

	/* One at a time: what it does may close others. */
	if (epoll_wait(poller, &event, 1, -1) == 1) {
		struct watch *watch = event.data.ptr;

		watch->ready(watch);
	} else if (errno != EINTR) {
		give_up("epoll: %s", strerror(errno));
	}
}

int listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(name) >= sizeof(address.sun_path))
		give_up("%s: the name is too long for a socket", name);
	strcpy(address.sun_path, name);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64))
		give_up("%s: %s", name, strerror(errno));
	return fd;
}

bool receive(int fd, void *data, size_t size, int *fds, unsigned int count)
{
	char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
	size_t done = 0;

	for (unsigned int number = 0; number < count; number++)
		fds[number] = -1;
	while (done < size) {
		struct iovec part = { (char *)data + done, size - done };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
					  .msg_control = control,
					  .msg_controllen = sizeof(control) };
		ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		struct cmsghdr *extra;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += got;
		extra = CMSG_FIRSTHDR(&message);
		if (extra && extra->cmsg_type == SCM_RIGHTS) {
			unsigned int sent = (extra->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			for (unsigned int number = 0; number < sent; number++) {
				int given;

				memcpy(&given, CMSG_DATA(extra) + number * sizeof(int), sizeof(int));
				if (number < count)
					fds[number] = given;
				else
					close(given);
			}
		}
	}
	return true;
}

bool send_all(int fd, const void *data, size_t size, const int *fds, unsigned int count)
{
	char control[CMSG_SPACE(MAX_FDS * sizeof(int))] = { 0 };
	size_t done = 0;

	while (done < size) {
		struct iovec part = { (char *)data + done, size - done };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		ssize_t sent;

		if (count && !done) {
			struct cmsghdr *extra;

			message.msg_control = control;
			message.msg_controllen = CMSG_SPACE(count * sizeof(int));
			extra = CMSG_FIRSTHDR(&message);
			extra->cmsg_level = SOL_SOCKET;
			extra->cmsg_type = SCM_RIGHTS;
			extra->cmsg_len = CMSG_LEN(count * sizeof(int));
			memcpy(CMSG_DATA(extra), fds, count * sizeof(int));
		}
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		done += sent;
	}
	return true;
}
