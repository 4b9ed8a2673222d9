/* Gives a process an IPv4 address of its own: that in NODE_ADDRESS, such as 127.0.0.2. It binds sockets to it that would
   be bound to all addresses, and those that connect. So two hosts of a cluster can be one machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static int own_address(struct sockaddr_in *address) {
    const char *text = getenv("NODE_ADDRESS");
    return text && inet_pton(AF_INET, text, &address->sin_addr) == 1;
}

int bind(int socket, const struct sockaddr *address, socklen_t length) {
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in own = *(const struct sockaddr_in *)address;
        if (own.sin_addr.s_addr == htonl(INADDR_ANY) && own_address(&own))
            return next(socket, (const struct sockaddr *)&own, sizeof own);
    }
    return next(socket, address, length);
}

int connect(int socket, const struct sockaddr *address, socklen_t length) {
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in own = {.sin_family = AF_INET};
    /* A socket that is bound already refuses, which is as well. */
    if (address->sa_family == AF_INET && own_address(&own)) bind(socket, (const struct sockaddr *)&own, sizeof own);
    return next(socket, address, length);
}
