/* SPDX-License-Identifier: MIT */
#include "bench_store.h"

#include <string.h>
#include <sys/utsname.h>

#include "base.h"
#include "trace.h"

/* What a recorder writes of itself, for a run that had none. */
static int store_native(struct trace *trace, const struct measurement *m, int64_t *ret_run)
{
	struct strbuf auto_strbuf command = {};
	struct utsname host;
	int64_t run;
	int err = trace_run_create(trace, m->label, &run);

	uname(&host);
	for (size_t i = 0; m->words[i]; i++) {
		strbuf_addf(&command, i ? "," : "[");
		strbuf_add_json(&command, m->words[i], strlen(m->words[i]));
	}
	strbuf_addf(&command, "]");
	if (command.failed)
		return -ENOMEM;
	err = err ?: trace_run_set_text(trace, run, "state", "native");
	err = err ?: trace_run_set_text(trace, run, "source", m->source);
	err = err
		      ?: trace_run_set_text(
				 trace, run, "fs_type", m->target->type ? m->target->type->name : NULL);
	err = err ?: trace_run_set_text(trace, run, "kernel", host.release);
	err = err ?: trace_run_set_text(trace, run, "machine", host.machine);
	err = err ?: trace_run_set_int(trace, run, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
	err = err ?: trace_run_set_text(trace, run, "version", FSTAPE_VERSION);
	err = err ?: trace_run_set_text(trace, run, "command", command.buf);
	err = err ?: trace_run_set_int(trace, run, "exit_status", m->status);
	err = err ?: trace_run_set_int(trace, run, "start_real_ns", m->start_real_ns);
	err = err ?: trace_run_set_int(trace, run, "real_ns", m->real_ns);
	err = err ?: trace_run_set_int(trace, run, "user_ns", m->user_ns);
	err = err ?: trace_run_set_int(trace, run, "sys_ns", m->sys_ns);
	if (err == 0)
		*ret_run = run;
	return err;
}

static int store(struct trace *trace, const struct measurement *m)
{
	int64_t run = m->run;
	int err = trace_begin(trace);

	if (err == 0 && !m->shim)
		err = store_native(trace, m, &run);
	err = err ?: trace_run_set_text(trace, run, "workload", m->workload->name);
	err = err ?: trace_run_set_text(trace, run, "target", m->target->name);
	err = err ?: trace_run_set_int(trace, run, "round", m->round);
	err = err ?: trace_run_set_text(trace, run, "caches", "warm");
	err = err ?: trace_run_set_text(trace, run, "setup", m->setup);
	err = err ?: trace_commit(trace);
	trace_rollback(trace);
	return err;
}

int measurement_store(const char *db, const struct measurement *measurement)
{
	struct trace *trace;
	int err = trace_open(db, TRACE_WRITE, &trace);

	if (err < 0)
		return err;
	err = store(trace, measurement);
	if (err < 0)
		log_msg("%s: cannot store a result: %s", db,
			trace_error(trace)[0] ? trace_error(trace) : strerror(-err));
	else
		trace_settle(trace);
	trace_close(trace);
	return err;
}
