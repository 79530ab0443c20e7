/* SPDX-License-Identifier: MIT */
/* When waiting ends, and the account of what is lost. */
#include "unit.h"

#include "loss.h"
#include "op.h"

static int64_t ago(int64_t ns)
{
	return clock_ns(CLOCK_MONOTONIC) - ns;
}

static void a_failing_loader_is_given_time(void **state)
{
	struct loss loss = {};

	(void)state;
	assert_false(loss_is_due(&loss));
	assert_true(loss_note_result(&loss, -ENOSPC) >= 0);
	assert_false(loss_is_due(&loss));
	atomic_store(&loss.stalled_since_ns, ago(STALL_LIMIT_NS - NSEC_PER_SEC));
	assert_false(loss_is_due(&loss));
	atomic_store(&loss.stalled_since_ns, ago(STALL_LIMIT_NS));
	assert_true(loss_is_due(&loss));
	assert_true(loss_note_result(&loss, -ENOSPC) >= STALL_LIMIT_NS);
	assert_int_equal(loss_note_result(&loss, 0), 0);
	assert_false(loss_is_due(&loss));
	assert_false(loss_is_final(&loss));
}

static void a_lock_is_waited_for_longer(void **state)
{
	struct loss loss = {};

	(void)state;
	loss_note_result(&loss, -EBUSY);
	atomic_store(&loss.stalled_since_ns, ago(STALL_LIMIT_NS * 2));
	assert_false(loss_is_due(&loss));
	atomic_store(&loss.stalled_since_ns, ago(LOCK_LIMIT_NS));
	assert_true(loss_is_due(&loss));
}

static void a_final_reason_ends_it_at_once(void **state)
{
	struct loss loss = {};

	(void)state;
	loss_set_final(&loss, EFBIG);
	assert_true(loss_is_due(&loss));
	loss_note_result(&loss, 0);
	assert_true(loss_is_due(&loss) && loss_is_final(&loss));
}

static void the_account_has_counts_times_and_the_first_reason(void **state)
{
	struct spool_state account = {};
	struct loss loss = {};

	(void)state;
	loss_count(&loss, &account, OP_read, 500);
	assert_int_equal(account.loss_errno, 0);
	loss_note_result(&loss, -ENOSPC);
	loss_count(&loss, &account, OP_read, 900);
	loss_note_result(&loss, -EIO);
	loss_count(&loss, &account, OP_write, 700); /* another worker was earlier */
	assert_int_equal(account.dropped[OP_read], 2);
	assert_int_equal(account.dropped[OP_write], 1);
	assert_int_equal(account.first_loss_ns, 500);
	assert_int_equal(account.last_loss_ns, 900);
	assert_int_equal(account.loss_errno, ENOSPC);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failing_loader_is_given_time),
		cmocka_unit_test(a_lock_is_waited_for_longer),
		cmocka_unit_test(a_final_reason_ends_it_at_once),
		cmocka_unit_test(the_account_has_counts_times_and_the_first_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
