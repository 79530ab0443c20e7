/* SPDX-License-Identifier: MIT */
/* How workers wait for the next request: how long what went wrong is left alone, who lingers, and which way a leader takes. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "ban.h"
#include "gate.h"
#include "giveway.h"
#include "leader.h"
#include "linger.h"
#include "priority.h"

#define START_NS (1000 * NSEC_PER_SEC)
#define CLIENT 4711
#define GLANCE 12 /* as in leader.c */

/* --- ban.h --------------------------------------------------------------------------------------------------------- */

static int64_t length(struct ban *ban, int64_t now)
{
	ban_start(ban, now);
	assert_true(ban_holds(ban, now));
	assert_false(ban_holds(ban, ban->until_ns));
	return ban->until_ns - now;
}

static void test_a_ban_grows_while_it_goes_wrong_at_once(void **state)
{
	struct ban ban = { 0 };
	int64_t now = START_NS, last = length(&ban, now);

	(void)state;
	assert_int_equal(last, BAN_LEAST_NS);
	for (int i = 0; i < 10; i++) {
		int64_t next = length(&ban, ban.until_ns);

		assert_int_equal(next, last < BAN_MOST_NS ? 2 * last : last);
		last = next;
	}
	assert_int_equal(last, BAN_MOST_NS);
}

/* Lanes ask at each look for as long as the canary is starved. */
static void test_what_goes_on_is_no_news(void **state)
{
	struct ban ban = { 0 };

	(void)state;
	for (int64_t now = START_NS; now < START_NS + BAN_LEAST_NS; now += BAN_LEAST_NS / 10)
		ban_start(&ban, now);
	assert_int_equal(ban.until_ns, START_NS + BAN_LEAST_NS);
}

static void test_a_ban_is_forgotten(void **state)
{
	struct ban ban = { 0 };

	(void)state;
	length(&ban, START_NS);
	length(&ban, ban.until_ns);
	assert_int_equal(length(&ban, ban.until_ns + BAN_MEMORY * ban.length_ns + 1), BAN_LEAST_NS);
}

/* --- giveway.h ----------------------------------------------------------------------------------------------------- */

static void begin(struct giveway *give)
{
	giveway_init(give);
	if (!priority_may_be_idle())
		skip();
	giveway_busy(give, START_NS, CLIENT);
	giveway_begin(give);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
}

/* A request was found waiting, and it is one that the kernel made by itself. */
static void begin_and_leave_behind(struct giveway *give)
{
	begin(give);
	giveway_relieve(give, true);
	giveway_busy(give, START_NS + 1, 0);
}

static void test_who_kept_a_client_waiting_gives_way_no_longer(void **state)
{
	struct giveway give;

	(void)state;
	begin(&give);
	assert_true(giveway_relieve(&give, true));
	assert_false(giveway_relieve(&give, true)); /* it was what held it up, and it still is */
	giveway_busy(&give, START_NS + 1, CLIENT);
	assert_false(giveway_may(&give, START_NS + 1));
	assert_int_not_equal(sched_getscheduler(0), SCHED_IDLE);
	giveway_end(&give);
}

/* RELEASE, which a client leaves behind when it goes on to compute: it is the client that has the processor. */
static void test_what_nobody_waits_for_is_no_reason(void **state)
{
	struct giveway give;

	(void)state;
	begin_and_leave_behind(&give);
	assert_true(giveway_may(&give, START_NS + 1));
	giveway_wait(&give); /* nothing behind it */
	giveway_busy(&give, START_NS + 2, CLIENT);
	assert_true(giveway_may(&give, START_NS + 2));
	giveway_end(&give);
}

static void test_what_lay_behind_it_is_one(void **state)
{
	struct giveway give;

	(void)state;
	begin_and_leave_behind(&give);
	giveway_busy(&give, START_NS + 2, CLIENT);
	assert_false(giveway_may(&give, START_NS + 2));
	giveway_end(&give);
}

/* --- linger.h ------------------------------------------------------------------------------------------------------ */

static void receive(struct linger *linger, struct linger_limit *limit, int times)
{
	while (times--)
		linger_received(linger, limit, false);
}

static void test_a_worker_lingers_while_requests_come_soon(void **state)
{
	struct linger_limit limit = { .most = 1 };
	struct linger one = { 0 }, other = { 0 };
	int64_t now = START_NS;

	(void)state;
	assert_false(linger_on(&one, &limit, now)); /* it has yet to see a request */
	receive(&one, &limit, LINGER_MISS);
	receive(&other, &limit, LINGER_MISS);
	assert_true(linger_on(&one, &limit, now));
	assert_false(linger_on(&other, &limit, now)); /* there is one already */
	for (int i = 0; i < 100; i++) {
		now += LINGER_NS - 1;
		assert_true(linger_on(&one, &limit, now));
		linger_received(&one, &limit, false);
		assert_true(linger_on(&one, &limit, now));
	}
	linger_end(&one, &limit);
	assert_int_equal(limit.now, 0);
}

/* fsync takes seconds on some disks: two clients that wait for theirs are not to keep all others from being served at once. */
static void test_who_is_busy_for_long_gives_up_its_place(void **state)
{
	struct linger_limit limit = { .most = 1 };
	struct linger one = { 0 }, other = { 0 };

	(void)state;
	receive(&one, &limit, LINGER_MISS);
	receive(&other, &limit, LINGER_MISS);
	assert_true(linger_on(&one, &limit, START_NS));
	linger_received(&one, &limit, true);
	assert_true(linger_on(&other, &limit, START_NS));
	linger_end(&other, &limit);
	assert_true(linger_on(&one, &limit, START_NS)); /* it has its answer */
	linger_end(&one, &limit);
	assert_int_equal(limit.now, 0);
}

static void test_it_sleeps_when_they_do_not(void **state)
{
	struct linger_limit limit = { .most = 4 };
	struct linger linger = { 0 };
	int64_t now = START_NS;
	int lingered = 0, requests = 1000;

	(void)state;
	for (int i = 0; i < requests; i++) {
		linger_received(&linger, &limit, false);
		if (linger_on(&linger, &limit, now)) {
			lingered++;
			now += LINGER_NS;
			assert_false(linger_on(&linger, &limit, now));
		}
		assert_false(linger_on(&linger, &limit, now)); /* once for each request */
		assert_int_equal(limit.now, 0);
	}
	assert_in_range(lingered, requests / LINGER_MISS - 1, requests / LINGER_MISS);
}

/* --- gate.h -------------------------------------------------------------------------------------------------------- */

#define LONGEST_S 60 /* that the test takes when somebody waits for who cannot go on: the signal ends it */

static sem_t held, go_on, passed;

/* What a thread looks like that nobody gives a processor: it is not out of its wait. */
static void hold_up(int number)
{
	(void)number;
	sem_post(&held);
	while (sem_wait(&go_on) < 0)
		;
}

struct passage {
	struct gate gate;
	_Atomic unsigned int open;
};

struct passer {
	struct passage *passage;
	unsigned int number;
	pthread_t thread;
};

static void *pass(void *arg)
{
	struct passer *passer = arg;
	struct passage *passage = passer->passage;

	for (;;) {
		uint32_t looked = gate_look(&passage->gate);

		if (atomic_load(&passage->open) >= passer->number)
			break;
		gate_wait(&passage->gate, looked);
	}
	sem_post(&passed);
	return NULL;
}

static void open_for(struct passage *passage, unsigned int number)
{
	atomic_store(&passage->open, number);
	gate_open(&passage->gate);
}

static void test_who_opens_does_not_wait_for_who_cannot_go_on(void **state)
{
	struct sigaction action = { .sa_handler = hold_up };
	struct passage passage = { 0 };
	struct passer first = { &passage, 1, 0 }, second = { &passage, 2, 0 };

	(void)state;
	assert_int_equal(sem_init(&held, 0, 0) | sem_init(&go_on, 0, 0) | sem_init(&passed, 0, 0), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	alarm(LONGEST_S);
	assert_int_equal(pthread_create(&first.thread, NULL, pass, &first), 0);
	usleep(20000); /* it should be waiting; were it not, this would show less */
	assert_int_equal(pthread_kill(first.thread, SIGUSR1), 0);
	assert_int_equal(sem_wait(&held), 0);
	open_for(&passage, 1);
	assert_int_equal(pthread_create(&second.thread, NULL, pass, &second), 0);
	usleep(20000);
	open_for(&passage, 2);
	assert_int_equal(sem_wait(&passed), 0); /* the second */
	assert_int_equal(sem_trywait(&passed), -1);
	sem_post(&go_on);
	assert_int_equal(sem_wait(&passed), 0);
	alarm(0);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
}

/* --- leader.h ------------------------------------------------------------------------------------------------------ */

/* A client whose next request comes sooner when the worker polls. How often it slept of `requests`. */
static int serve(struct leader *leader, int requests)
{
	int slept = 0;

	while (requests--) {
		int64_t until = clock_ns(CLOCK_MONOTONIC);
		bool polls;

		leader_before_reply(leader);
		polls = leader_poll(leader);
		slept += !polls;
		until += polls ? 2000 : 60000;
		while (clock_ns(CLOCK_MONOTONIC) < until)
			;
		leader_received(leader, CLIENT, false);
	}
	return slept;
}

static void test_a_way_that_is_no_good_is_dropped_at_a_glance(void **state)
{
	struct leader_settings settings;
	struct leader *leader;
	int slept;

	(void)state;
	leader_settings_init(WAIT_AUTO, &settings);
	settings.can_follow = false;
	assert_int_equal(leader_new(&settings, &leader), 0);
	leader_received(leader, CLIENT, false);
	leader_begin(leader);
	slept = serve(leader, 2000);
	assert_int_equal(settings.best, LEADER_POLL);
	/* More than one glance, should a busy machine have put this aside in the middle of a poll. */
	assert_in_range(slept, GLANCE - 1, 200);
	assert_true(settings.cost[LEADER_SLEEP] > 2 * settings.cost[LEADER_POLL]);
	leader_end(leader);
	leader_free(leader);
}

/* One that costs as much as sleeping takes a processor for nothing. */
static void test_polling_has_to_be_worth_it(void **state)
{
	struct leader_settings settings;
	struct leader *leader;

	(void)state;
	leader_settings_init(WAIT_AUTO, &settings);
	settings.can_follow = false;
	settings.cost[LEADER_SLEEP] = 10000;
	settings.cost[LEADER_POLL] = 9500;
	assert_int_equal(leader_new(&settings, &leader), 0);
	leader_begin(leader);
	leader_before_reply(leader);
	assert_false(leader_poll(leader));
	leader_end(leader);
	settings.cost[LEADER_POLL] = 8000;
	leader_received(leader, CLIENT, false);
	leader_begin(leader);
	leader_before_reply(leader);
	assert_true(leader_poll(leader));
	leader_end(leader);
	leader_free(leader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_ban_grows_while_it_goes_wrong_at_once),
		cmocka_unit_test(test_what_goes_on_is_no_news),
		cmocka_unit_test(test_a_ban_is_forgotten),
		cmocka_unit_test(test_who_kept_a_client_waiting_gives_way_no_longer),
		cmocka_unit_test(test_what_nobody_waits_for_is_no_reason),
		cmocka_unit_test(test_what_lay_behind_it_is_one),
		cmocka_unit_test(test_a_worker_lingers_while_requests_come_soon),
		cmocka_unit_test(test_who_is_busy_for_long_gives_up_its_place),
		cmocka_unit_test(test_it_sleeps_when_they_do_not),
		cmocka_unit_test(test_who_opens_does_not_wait_for_who_cannot_go_on),
		cmocka_unit_test(test_a_way_that_is_no_good_is_dropped_at_a_glance),
		cmocka_unit_test(test_polling_has_to_be_worth_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
