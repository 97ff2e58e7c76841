/* A library to preload: it records, and on request fails, the file operations of a process below one folder.

   RELIABILITY_UNDER   the folder; other paths are left alone
   RELIABILITY_TRACE   file to append a record of each successful operation to
   reliability_fail    fails the operations first to last of the kinds (letters below) of this process and those it
                       forks; errno 0 writes only half of the data
   Writes through C streams (fwrite) and system calls made without the C library are not seen; a rename of the latter
   kind shows by the inode that a later operation finds under another name. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 'c', OPEN = 'o', WRITE = 'w', SYNC = 's', RENAME = 'r', EXCHANGE = 'x', UNLINK = 'u', RMDIR = 'd',
       MKDIR = 'm', TRUNCATE = 't', MARK = 'a' };

struct head { uint32_t kind, first, second, pid; int64_t offset; uint64_t length, inode; };

static char under[PATH_MAX];
static size_t under_length;
static int trace = -1;
static uint64_t *counter;
static uint64_t fail_first, fail_last;
static int fail_errno;
static char fail_kinds[32];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
    const char *value = getenv("RELIABILITY_UNDER");
    if (!value || !realpath(value, under)) { under[0] = 0; return; }
    under_length = strlen(under);
    if ((value = getenv("RELIABILITY_TRACE")))
        trace = syscall(SYS_openat, AT_FDCWD, value, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    void *memory = mmap(0, 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counter = memory == MAP_FAILED ? 0 : memory;
}

void reliability_fail(uint64_t first, uint64_t last, int number, const char *kinds) {
    fail_first = first, fail_last = last, fail_errno = number;
    snprintf(fail_kinds, sizeof fail_kinds, "%s", kinds);
    counter[0] = counter[1] = 0;
}

uint64_t reliability_failed(void) { return counter[1]; }

static int inside(const char *path) {
    return under_length && !strncmp(path, under, under_length) && (path[under_length] == '/' || !path[under_length]);
}

static int path_of(int folder, const char *path, char *out) {
    char base[PATH_MAX] = "";
    if (!under_length || !path) return 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
        else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t n = readlink(link, base, sizeof base - 1);
            if (n < 0) return 0;
            base[n] = 0;
        }
    }
    return snprintf(out, PATH_MAX, "%s%s%s", base, *base ? "/" : "", path) < PATH_MAX && inside(out);
}

static int handle_path(int handle, char *out) {
    char link[64];
    if (!under_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return 0;
    out[n] = 0;
    return inside(out);
}

/* 0: go on, -1: fail with errno set, 1: write half */
static int fault(int kind) {
    if (!counter || !strchr(fail_kinds, kind)) return 0;
    uint64_t number = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    if (number < fail_first || number > fail_last) return 0;
    __atomic_add_fetch(counter + 1, 1, __ATOMIC_SEQ_CST);
    if (!fail_errno) return 1;
    errno = fail_errno;
    return -1;
}

static void record(int kind, const char *first, const char *second, int64_t offset, const void *data, uint64_t length) {
    struct stat status = { 0 };
    if (trace < 0) return;
    int saved = errno;
    if (first) stat(second ? second : first, &status);
    struct head head = { kind, first ? strlen(first) : 0, second ? strlen(second) : 0, getpid(), offset, data ? length : 0,
                         status.st_ino };
    struct iovec parts[4] = { { &head, sizeof head }, { (void *)first, head.first }, { (void *)second, head.second },
                              { (void *)data, head.length } };
    syscall(SYS_writev, trace, parts, 4);
    errno = saved;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void reliability_mark(const char *text) { record(MARK, text, 0, 0, 0, 0); }

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (!path_of(folder, path, full) || flags & O_PATH) return syscall(SYS_openat, folder, path, flags, mode);
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    struct stat before;
    int existed = !stat(full, &before);
    if (fault(writes && flags & O_CREAT && !existed ? CREATE : OPEN) < 0) return -1;
    pthread_mutex_lock(&lock);
    int handle = syscall(SYS_openat, folder, path, flags, mode);
    if (handle >= 0) {
        if (!existed) record(CREATE, full, 0, 0, 0, 0);
        else {
            record(OPEN, full, 0, 0, 0, 0);
            if (writes && flags & O_TRUNC && before.st_size) record(TRUNCATE, full, 0, 0, 0, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

#define MODE(flags) ({ mode_t mode_ = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); \
                       mode_ = va_arg(list, mode_t); va_end(list); } mode_; })
int open(const char *path, int flags, ...) { return open_any(AT_FDCWD, path, flags, MODE(flags)); }
int open64(const char *path, int flags, ...) { return open_any(AT_FDCWD, path, flags | O_LARGEFILE, MODE(flags)); }
int openat(int folder, const char *path, int flags, ...) { return open_any(folder, path, flags, MODE(flags)); }
int openat64(int folder, const char *path, int flags, ...) { return open_any(folder, path, flags, MODE(flags)); }

DIR *opendir(const char *path) {
    char full[PATH_MAX];
    return path_of(AT_FDCWD, path, full) && fault(OPEN) < 0 ? 0 : REAL(opendir)(path);
}

static ssize_t write_any(int handle, const void *data, size_t size, off_t offset) {
    char full[PATH_MAX];
    int ours = handle_path(handle, full);
    if (ours) {
        int verdict = fault(WRITE);
        if (verdict < 0) return -1;
        if (verdict) size = (size + 1) / 2;
        pthread_mutex_lock(&lock);
    }
    ssize_t done = offset < 0 ? syscall(SYS_write, handle, data, size) : syscall(SYS_pwrite64, handle, data, size, offset);
    if (ours) {
        if (done > 0) record(WRITE, full, 0, offset < 0 ? lseek(handle, 0, SEEK_CUR) - done : offset, data, done);
        pthread_mutex_unlock(&lock);
    }
    return done;
}

ssize_t write(int handle, const void *data, size_t size) { return write_any(handle, data, size, -1); }
ssize_t pwrite(int handle, const void *data, size_t size, off_t offset) { return write_any(handle, data, size, offset); }
ssize_t pwrite64(int handle, const void *data, size_t size, off64_t offset) { return write_any(handle, data, size, offset); }

ssize_t writev(int handle, const struct iovec *parts, int count) {
    char full[PATH_MAX];
    if (!handle_path(handle, full)) return REAL(writev)(handle, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = write(handle, parts[i].iov_base, parts[i].iov_len);
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}

static int sync_any(int handle, int number) {
    char full[PATH_MAX];
    if (!handle_path(handle, full)) return syscall(number, handle);
    if (fault(SYNC) < 0) return -1;
    pthread_mutex_lock(&lock);
    int result = syscall(number, handle);
    if (!result) record(SYNC, full, 0, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int handle) { return sync_any(handle, SYS_fsync); }
int fdatasync(int handle) { return sync_any(handle, SYS_fdatasync); }

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    int ours = path_of(from_folder, from, first) && path_of(to_folder, to, second);
    if (ours && fault(RENAME) < 0) return -1;
    if (ours) pthread_mutex_lock(&lock);
    int result = syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    if (ours) {
        if (!result) record(flags & RENAME_EXCHANGE ? EXCHANGE : RENAME, first, second, 0, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
int renameat(int a, const char *from, int b, const char *to) { return renameat2(a, from, b, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *path, int flags) {
    char full[PATH_MAX];
    int ours = path_of(folder, path, full), kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    if (ours && fault(UNLINK) < 0) return -1;
    if (ours) pthread_mutex_lock(&lock);
    int result = syscall(SYS_unlinkat, folder, path, flags);
    if (ours) {
        if (!result) record(kind, full, 0, 0, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode) {
    char full[PATH_MAX];
    int ours = path_of(folder, path, full);
    if (ours && fault(MKDIR) < 0) return -1;
    if (ours) pthread_mutex_lock(&lock);
    int result = syscall(SYS_mkdirat, folder, path, mode);
    if (ours) {
        if (!result) record(MKDIR, full, 0, 0, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int ftruncate(int handle, off_t size) {
    char full[PATH_MAX];
    int ours = handle_path(handle, full);
    if (ours && fault(TRUNCATE) < 0) return -1;
    if (ours) pthread_mutex_lock(&lock);
    int result = syscall(SYS_ftruncate, handle, size);
    if (ours) {
        if (!result) record(TRUNCATE, full, 0, size, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
int ftruncate64(int handle, off64_t size) { return ftruncate(handle, size); }
