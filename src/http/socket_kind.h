/* socket_kind.h - what a client has connected to. */
#ifndef HTTP_SOCKET_KIND_H
#define HTTP_SOCKET_KIND_H

enum socket_kind { SOCKET_TCP, SOCKET_UNIX, SOCKET_TLS /* over TCP */, SOCKET_KINDS };

#endif
