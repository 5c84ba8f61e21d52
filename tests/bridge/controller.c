/* A controller written from the description of the wire format alone: the second opinion on our bytes.
 *
 *   controller SOCKET dump              print the first state, field by field
 *   controller SOCKET command V         publish one command: joint i of field f gets V + 100 f + i; stamp 1234
 *   controller SOCKET read N CPU        read until N whole frames were seen; all words of a frame must be equal
 *   controller SOCKET write SECONDS CPU publish commands some 500,000 times a second, all words of a frame equal
 *   controller SOCKET stall             begin a command, leave its sequence odd, and end
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef _Atomic uint64_t word;

enum { MAGIC, VERSION, HEADER, TOTAL, NJOINTS, NIMUS, STATE_SEQ, COMMAND_SEQ, SERVER, CLIENT, VALID, STATE_AT, COMMAND_AT, STAMP };

static word* shared;
static char own_path[108];

static void fail(const char* what) {
    fprintf(stderr, "controller: %s\n", what);
    unlink(own_path);
    exit(1);
}

static uint64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t number_at(const char* reply, const char* key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char* at = strstr(reply, quoted);
    if (!at) fail(key);
    return strtoull(at + strlen(quoted), NULL, 10);
}

static int count_names(const char* reply, const char* key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":[", key);
    const char* at = strstr(reply, quoted);
    if (!at) fail(key);
    int quotes = 0;
    for (at += strlen(quoted); *at != ']'; at++) quotes += *at == '"';
    return quotes / 2;
}

static void discover(const char* server, char* reply, size_t size) {
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un own = {.sun_family = AF_UNIX}, other = {.sun_family = AF_UNIX};
    snprintf(own_path, sizeof own_path, "%s.client.%d", server, (int)getpid());
    strcpy(own.sun_path, own_path);
    strcpy(other.sun_path, server);
    if (bind(fd, (struct sockaddr*)&own, sizeof own)) fail("bind");
    const char* ask = "{\"type\":\"discovery\"}";
    if (sendto(fd, ask, strlen(ask), 0, (struct sockaddr*)&other, sizeof other) < 0) fail("sendto");
    ssize_t got = recv(fd, reply, size - 1, 0);
    if (got <= 0) fail("recv");
    reply[got] = 0;
    close(fd);
}

static void attach(const char* server) {
    static char reply[40960];
    discover(server, reply, sizeof reply);
    if (!strstr(reply, "\"protocol\":\"xbot2-shm-v1\"")) fail("no xbot2-shm-v1");
    char name[256] = "/";
    const char* at = strstr(reply, "\"shm_name\":\"") + strlen("\"shm_name\":\"");
    strncat(name, at + (*at == '/'), strcspn(at, "\"") - (*at == '/'));
    int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0) fail("shm_open");
    struct stat info;
    uint64_t total = number_at(reply, "total_size");
    if (fstat(fd, &info) || (uint64_t)info.st_size < total) fail("segment too small");
    shared = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) fail("mmap");
    if (shared[MAGIC] != 0x5842504253484D31u || number_at(reply, "magic") != shared[MAGIC]) fail("magic");
    if (shared[VERSION] != 1 || number_at(reply, "version") != 1) fail("version");
    if (shared[HEADER] != 128 || shared[STATE_AT] != 128) fail("header size");
    if (shared[TOTAL] != total || total % 64) fail("total size");
    if (shared[NJOINTS] != (uint64_t)count_names(reply, "joint_names")) fail("joints");
    if (shared[NIMUS] != (uint64_t)count_names(reply, "imu_sensors")) fail("imus");
    uint64_t state_end = 128 + 8 * (1 + 8 * shared[NJOINTS] + 10 * shared[NIMUS]);
    if (shared[COMMAND_AT] != (state_end + 63) / 64 * 64) fail("command offset");
    if (total != (shared[COMMAND_AT] + 8 + 40 * shared[NJOINTS] + 63) / 64 * 64) fail("total");
    if (shared[SERVER] == 0 || shared[SERVER] != number_at(reply, "server_session_id")) fail("session");
    atomic_store(&shared[CLIENT], 0x1000000000000000u + (uint64_t)getpid());
}

/* 1 whole frame, 0 nothing new, -1 torn */
static int read_state(uint64_t* to, size_t words, uint64_t* last) {
    uint64_t before = atomic_load_explicit(&shared[STATE_SEQ], memory_order_acquire);
    if (before == 0 || before % 2 || before == *last) return 0;
    word* from = shared + shared[STATE_AT] / 8;
    for (size_t i = 0; i < words; i++) to[i] = atomic_load_explicit(from + i, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&shared[STATE_SEQ], memory_order_relaxed) != before) return -1;
    *last = before;
    return 1;
}

static void publish(uint64_t seq, uint64_t stamp_rx, const uint64_t* values, size_t n) {
    word* to = shared + shared[COMMAND_AT] / 8;
    atomic_store_explicit(&shared[COMMAND_SEQ], seq - 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(to, stamp_rx, memory_order_relaxed);
    for (size_t i = 0; i < n; i++) atomic_store_explicit(to + 1 + i, values[i], memory_order_relaxed);
    atomic_store_explicit(&shared[STAMP], monotonic_ns(), memory_order_relaxed);
    atomic_store_explicit(&shared[VALID], 1, memory_order_relaxed);
    atomic_store_explicit(&shared[COMMAND_SEQ], seq, memory_order_release);
}

static void dump(size_t words) {
    double* state = malloc(8 * words);
    uint64_t last = 0;
    while (read_state((uint64_t*)state, words, &last) != 1) usleep(100);
    for (size_t i = 0; i < words; i++) printf("%.17g\n", state[i]);
}

static void command(double value, size_t n) {
    double* values = malloc(8 * (5 * n + 1));
    for (size_t f = 0; f < 5; f++)
        for (size_t i = 0; i < n; i++) values[f * n + i] = value + 100.0 * (double)f + (double)i;
    publish(2, 1234, (uint64_t*)values, 5 * n);
}

static void read_many(uint64_t wanted, size_t words) {
    uint64_t* frame = malloc(8 * words);
    uint64_t last = 0, whole = 0, begun_anew = 0, torn = 0;
    while (whole < wanted) {
        int got = read_state(frame, words, &last);
        if (got == 1) last = 0; /* the same frame again is another read */
        if (got < 0) begun_anew++;
        if (got != 1) continue;
        whole++;
        for (size_t i = 1; i < words; i++)
            if (frame[i] != frame[0]) { torn++; break; }
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", whole, begun_anew, torn);
}

static void write_many(double seconds, size_t n) {
    uint64_t* values = malloc(8 * (5 * n + 1));
    uint64_t seq = 0, end = monotonic_ns() + (uint64_t)(seconds * 1e9);
    while (monotonic_ns() < end) {
        seq += 2;
        double same = (double)(seq / 2);
        for (size_t i = 0; i < 5 * n; i++) memcpy(values + i, &same, 8);
        publish(seq, seq / 2, values, 5 * n);
        for (uint64_t until = monotonic_ns() + seq % 37 * 100; monotonic_ns() < until;) {} /* 0 to 3.6 us apart */
    }
    printf("%" PRIu64 "\n", seq / 2);
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(int argc, char** argv) {
    if (argc < 3) fail("usage");
    attach(argv[1]);
    size_t n = shared[NJOINTS], words = 1 + 8 * n + 10 * shared[NIMUS];
    if (argc > 4) pin(atoi(argv[4]));
    if (!strcmp(argv[2], "dump")) dump(words);
    else if (!strcmp(argv[2], "command")) command(atof(argv[3]), n);
    else if (!strcmp(argv[2], "read")) read_many(strtoull(argv[3], NULL, 10), words);
    else if (!strcmp(argv[2], "write")) write_many(atof(argv[3]), n);
    else if (!strcmp(argv[2], "stall")) atomic_store(&shared[COMMAND_SEQ], 41);
    else fail("mode");
    unlink(own_path);
    return 0;
}
