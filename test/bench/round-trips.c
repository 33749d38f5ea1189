/*
 * round-trips.c: both ends of the round trips that scripts/kernels-instructions.sh counts. It is written in
 * C, so that the ends take few instructions, and always the same number. kernels.sh compiles it statically
 * with gcc.
 *   round-trips serve udp|tcp ADDRESS PORT              echoes the data of one TCP connection after the other
 *   round-trips take tcp ADDRESS PORT                   sends back one byte for each 256 KiB
 *   round-trips new|established udp|tcp ADDRESS PORT N  makes N round trips of one byte, each in a flow of its own or
 *                                                       all in one, and prints the nanoseconds of one of them
 *   round-trips bulk tcp ADDRESS PORT N                 the same in one flow, with 256 KiB for each byte sent back
 * A round trip in a new TCP flow includes connecting and closing. Exits with 1 if anything fails, or if an answer takes
 * longer than 2 s. The time is the mean of the middle 5 of 15 parts, so that the kernel's occasional other work, which
 * falls on few parts, does not count.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 100, PARTS = 15, EXTREMES = 5, BULK = 1 << 18 };

static int type;
static char bytes[BULK];
/* The number of bytes sent in one round trip. */
static size_t size = 1;
static struct sockaddr_storage peer;
static socklen_t peer_length;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int socket_of_peer(void) {
  int s = socket(peer.ss_family, type, 0);
  if (s < 0) fail("socket");
  return s;
}

static void read_peer(const char *protocol, const char *address, const char *port) {
  struct sockaddr_in *ip = (void *)&peer;
  struct sockaddr_in6 *ip6 = (void *)&peer;
  type = strcmp(protocol, "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
  if (strchr(address, ':')) {
    ip6->sin6_family = AF_INET6;
    ip6->sin6_port = htons(atoi(port));
    peer_length = sizeof *ip6;
    if (inet_pton(AF_INET6, address, &ip6->sin6_addr) != 1) fail(address);
  } else {
    ip->sin_family = AF_INET;
    ip->sin_port = htons(atoi(port));
    peer_length = sizeof *ip;
    if (inet_pton(AF_INET, address, &ip->sin_addr) != 1) fail(address);
  }
}

/* answer: echoes the received bytes or, if it takes bulk data, sends one byte for each 256 KiB. */
static ssize_t answer(int connection, ssize_t length, int takes) {
  static ssize_t taken;
  if (!takes) return send(connection, bytes, length, 0);
  taken += length;
  if (taken < BULK) return 0;
  taken -= BULK;
  return send(connection, "x", 1, 0);
}

static void serve(int takes) {
  ssize_t length;
  int s = socket_of_peer();
  if (bind(s, (void *)&peer, peer_length) < 0) fail("bind");
  if (type == SOCK_STREAM && listen(s, 16) < 0) fail("listen");
  for (;;) {
    struct sockaddr_storage client;
    socklen_t client_length = sizeof client;
    if (type == SOCK_DGRAM) {
      length = recvfrom(s, bytes, sizeof bytes, 0, (void *)&client, &client_length);
      if (length < 0 || sendto(s, bytes, length, 0, (void *)&client, client_length) < 0) fail("echo");
      continue;
    }
    int connection = accept(s, NULL, NULL);
    if (connection < 0) fail("accept");
    while ((length = recv(connection, bytes, sizeof bytes, 0)) > 0) {
      if (answer(connection, length, takes) < 0) fail("echo");
    }
    close(connection);
  }
}

static int open_flow(void) {
  struct timeval patience = {2, 0};
  int s = socket_of_peer();
  if (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0) fail("setsockopt");
  if (connect(s, (void *)&peer, peer_length) < 0) fail("connect");
  return s;
}

static void round_trip(int s) {
  if (send(s, bytes, size, 0) != (ssize_t)size) fail("send");
  if (recv(s, bytes, sizeof bytes, 0) != 1) fail("an answer is lost");
}

/* Waits until the server has closed, so that the last packets of a connection belong to its round trip. */
static void close_flow(int s) {
  if (type == SOCK_STREAM && (shutdown(s, SHUT_WR) < 0 || recv(s, bytes, sizeof bytes, 0) != 0)) fail("close");
  close(s);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void measure(int each_new, int count) {
  double parts[PARTS], sum = 0;
  int flow = open_flow();
  for (int i = 0; i < WARM_UP; i++) round_trip(flow);
  if (each_new) close_flow(flow);
  for (int part = 0; part < PARTS; part++) {
    double start = now();
    for (int i = 0; i < count / PARTS; i++) {
      if (each_new) flow = open_flow();
      round_trip(flow);
      if (each_new) close_flow(flow);
    }
    parts[part] = (now() - start) / (count / PARTS);
  }
  qsort(parts, PARTS, sizeof *parts, compare);
  for (int part = EXTREMES; part < PARTS - EXTREMES; part++) sum += parts[part];
  printf("%.0f\n", sum / (PARTS - 2 * EXTREMES));
}

int main(int count, char **words) {
  if (count < 5) {
    fprintf(stderr, "usage: round-trips serve|take|new|established|bulk udp|tcp ADDRESS PORT [N]\n");
    return 1;
  }
  read_peer(words[2], words[3], words[4]);
  if (strcmp(words[1], "serve") == 0) serve(0);
  if (strcmp(words[1], "take") == 0) serve(1);
  if (strcmp(words[1], "bulk") == 0) size = BULK;
  measure(strcmp(words[1], "new") == 0, count > 5 ? atoi(words[5]) : PARTS);
  return 0;
}
