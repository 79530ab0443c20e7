/* SPDX-License-Identifier: MIT */
/* Who gives way to a lone client, when, and that nobody is forgotten at idle priority. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "guard.h"
#include "lanes.h"
#include "lone.h"
#include "priority.h"

#define WAIT_NS (20 * NSEC_PER_SEC)

/* One thread in a lane of this processor: it answers when it is told to, and waits as ring.c does, wherever it is. */
struct member {
	struct lanes *lanes;
	unsigned int processor;
	pthread_t thread;
	_Atomic pid_t tid;
	int ask_fd;
	_Atomic int client; /* of the next request; 0: leave */
	_Atomic int answered;
};

static void pin(unsigned int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

static void *member_main(void *arg)
{
	struct member *member = arg;
	struct giveway give;
	eventfd_t count;
	int client;

	pin(member->processor);
	priority_init();
	lanes_join(member->lanes, member->processor, &give);
	atomic_store(&member->tid, gettid());
	while (eventfd_read(member->ask_fd, &count) == 0 && (client = atomic_load(&member->client))) {
		lanes_answer(member->lanes, member->processor, &give, client);
		atomic_fetch_add(&member->answered, 1);
	}
	lanes_leave(member->lanes, member->processor, &give);
	assert_int_equal(sched_getscheduler(0), SCHED_BATCH);
	return NULL;
}

static void ask(struct member *member, int client)
{
	int before = atomic_load(&member->answered);

	atomic_store(&member->client, client);
	eventfd_write(member->ask_fd, 1);
	for (int64_t end = clock_ns(CLOCK_MONOTONIC) + WAIT_NS; client && atomic_load(&member->answered) == before;) {
		assert_true(clock_ns(CLOCK_MONOTONIC) < end);
		usleep(100);
	}
}

/* Waits for it to have that priority; while it does not, `client` goes on asking. */
static void wait_for(struct member *member, int policy, int client)
{
	int64_t end = clock_ns(CLOCK_MONOTONIC) + WAIT_NS;

	while (sched_getscheduler(atomic_load(&member->tid)) != policy) {
		assert_true(clock_ns(CLOCK_MONOTONIC) < end);
		if (client)
			ask(member, client);
		usleep(500);
	}
}

struct fixture {
	struct guard *guard;
	struct lanes *lanes;
	struct member member;
	cpu_set_t allowed;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	cpu_set_t others;
	unsigned int processor = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(f->allowed), &f->allowed), 0);
	while (!CPU_ISSET(processor, &f->allowed))
		processor++;
	others = f->allowed;
	CPU_CLR(processor, &others);
	sched_setaffinity(0, sizeof(others), &others); /* the guard too; where there is no other they are all on one */
	assert_int_equal(guard_new(&f->guard), 0);
	assert_int_equal(lanes_new(f->guard, processor + 1, &f->lanes), 0);
	f->member = (struct member){ .lanes = f->lanes, .processor = processor, .ask_fd = eventfd(0, EFD_CLOEXEC) };
	assert_int_equal(pthread_create(&f->member.thread, NULL, member_main, &f->member), 0);
	while (!atomic_load(&f->member.tid))
		usleep(100);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ask(&f->member, 0);
	pthread_join(f->member.thread, NULL);
	close(f->member.ask_fd);
	lanes_free(f->lanes);
	guard_free(f->guard);
	sched_setaffinity(0, sizeof(f->allowed), &f->allowed);
	free(f);
	return 0;
}

#define lanes_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static bool cannot_come_back(void)
{
	if (priority_may_be_idle())
		return false;
	print_message("skipped: a thread does not get back from idle priority here\n");
	return true;
}

static void many_clients_are_not_given_way_to(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 200; i++)
		ask(&f->member, 1 + i % 5);
	usleep(20000);
	ask(&f->member, 1);
	assert_int_equal(sched_getscheduler(atomic_load(&f->member.tid)), SCHED_BATCH);
}

static void a_lone_client_is_until_it_rests(void **state)
{
	struct fixture *f = *state;

	if (cannot_come_back())
		skip();
	for (int times = 0; times < 2; times++) {
		wait_for(&f->member, SCHED_IDLE, 7);
		wait_for(&f->member, SCHED_BATCH, 0);
	}
}

static void a_lone_client_is_until_others_come(void **state)
{
	struct fixture *f = *state;

	if (cannot_come_back())
		skip();
	wait_for(&f->member, SCHED_IDLE, 7);
	for (int i = 0; i < 12; i++)
		ask(&f->member, 100 + i);
	assert_int_equal(sched_getscheduler(atomic_load(&f->member.tid)), SCHED_BATCH);
}

#define HOGS 8

struct hog {
	unsigned int processor;
	_Atomic bool stop;
};

static void *hog_main(void *arg)
{
	struct hog *hog = arg;

	pin(hog->processor);
	while (!atomic_load(&hog->stop))
		;
	return NULL;
}

/* It waits at idle priority when somebody takes its processor: it is given back its own, and answers soon. */
static void not_to_who_needs_the_processor(void **state)
{
	struct fixture *f = *state;
	struct hog hog = { .processor = f->member.processor };
	pthread_t threads[HOGS];

	if (cannot_come_back())
		skip();
	wait_for(&f->member, SCHED_IDLE, 7);
	for (int i = 0; i < HOGS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hog_main, &hog), 0);
	for (int i = 0; i < 50; i++) {
		int64_t start = clock_ns(CLOCK_MONOTONIC);

		ask(&f->member, 7);
		assert_true(clock_ns(CLOCK_MONOTONIC) - start < NSEC_PER_SEC);
	}
	atomic_store(&hog.stop, true);
	for (int i = 0; i < HOGS; i++)
		pthread_join(threads[i], NULL);
}

#define RT_HOG_NS (NSEC_PER_SEC / 2)

/* Leaves nothing of the processor to others, for a short time whatever happens. */
static void *rt_hog_main(void *arg)
{
	struct hog *hog = arg;
	int64_t end = clock_ns(CLOCK_MONOTONIC) + RT_HOG_NS;

	pin(hog->processor);
	while (!atomic_load(&hog->stop) && clock_ns(CLOCK_MONOTONIC) < end)
		;
	return NULL;
}

static int start_rt_hog(struct hog *hog, pthread_t *ret_thread)
{
	struct sched_param param = { .sched_priority = 1 };
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	err = pthread_create(ret_thread, &attr, rt_hog_main, hog);
	pthread_attr_destroy(&attr);
	return err;
}

static bool becomes(const struct member *member, int policy)
{
	int64_t end = clock_ns(CLOCK_MONOTONIC) + RT_HOG_NS / 2;

	while (sched_getscheduler(atomic_load(&member->tid)) != policy) {
		if (clock_ns(CLOCK_MONOTONIC) > end)
			return false;
		usleep(200);
	}
	return true;
}

/*
 * One that found the lane watched, was kept from the processor, and gives way only after all others have been relieved: it
 * waits at idle priority next to whoever needs the processor.
 */
static void who_gives_way_late_is_relieved_too(void **state)
{
	struct fixture *f = *state;
	struct hog hog = { .processor = f->member.processor };
	bool relieved, again;
	pthread_t thread;

	if (cannot_come_back() || CPU_COUNT(&f->allowed) < 2)
		skip();
	wait_for(&f->member, SCHED_IDLE, 7);
	if (start_rt_hog(&hog, &thread) != 0)
		skip();
	relieved = becomes(&f->member, SCHED_BATCH);
	priority_set_idle(atomic_load(&f->member.tid), true);
	again = becomes(&f->member, SCHED_BATCH);
	atomic_store(&hog.stop, true);
	pthread_join(thread, NULL);
	assert_true(relieved);
	assert_true(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lanes_test(many_clients_are_not_given_way_to),
		lanes_test(a_lone_client_is_until_it_rests),
		lanes_test(a_lone_client_is_until_others_come),
		lanes_test(not_to_who_needs_the_processor),
		lanes_test(who_gives_way_late_is_relieved_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
