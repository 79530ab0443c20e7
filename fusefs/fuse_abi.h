/* SPDX-License-Identifier: MIT */
/*
 * fuse_abi.h - what is agreed with newer kernels that linux/fuse.h of the build may not know yet; part of the kernel's
 * ABI, so the numbers are for ever. Whether the kernel has it is seen from what it offers at INIT.
 */
#ifndef FSTAPE_FUSE_ABI_H
#define FSTAPE_FUSE_ABI_H

#include <linux/fuse.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* 7.40, Linux 6.9: the kernel reads and writes a file below by itself */
#ifndef FUSE_PASSTHROUGH
#define FUSE_PASSTHROUGH (1ULL << 37)
#define FOPEN_PASSTHROUGH (1 << 7)
struct fuse_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define FUSE_DEV_IOC_BACKING_OPEN _IOW(229, 1, struct fuse_backing_map)
#define FUSE_DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)
#endif

/* 7.42, Linux 6.14: requests and answers in memory that is shared through io_uring */
#ifndef FUSE_OVER_IO_URING
#define FUSE_OVER_IO_URING (1ULL << 41)
struct fuse_uring_ent_in_out {
	uint64_t flags;
	uint64_t commit_id;
	uint32_t payload_sz;
	uint32_t padding;
	uint64_t reserved;
};
struct fuse_uring_req_header {
	char in_out[128];
	char op_in[128];
	struct fuse_uring_ent_in_out ring_ent_in_out;
};
enum { FUSE_IO_URING_CMD_REGISTER = 1, FUSE_IO_URING_CMD_COMMIT_AND_FETCH = 2 };
struct fuse_uring_cmd_req {
	uint64_t flags;
	uint64_t commit_id;
	uint16_t qid;
	uint8_t padding[6];
};
#endif

/* Of struct fuse_init_out, which has had room for them since 7.36 without naming them all. */
#define INIT_OUT_FLAGS2_AT 32
#define INIT_OUT_STACK_DEPTH_AT 36
#define INIT_OUT_SIZE 64

/* The end of an answer to OPEN and CREATE, as newer headers have it. */
struct open_answer {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};

#endif
