/* SPDX-License-Identifier: MIT */
#include "interrupt.h"

#include "base.h"

static const int signals[INTERRUPT_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

static struct trace *volatile running;
static volatile sig_atomic_t seen;

static void on_signal(int sig)
{
	(void)sig;
	seen = 1;
	if (running)
		trace_interrupt(running);
}

void interrupt_catch(struct interrupt *interrupt, struct trace *trace)
{
	struct sigaction action = { .sa_handler = on_signal,
		.sa_flags = SA_RESTART | SA_RESETHAND };

	seen = 0;
	running = trace;
	for (int i = 0; i < INTERRUPT_SIGNALS; i++) {
		sigaction(signals[i], NULL, &interrupt->before[i]);
		if (interrupt->before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

void interrupt_release(const struct interrupt *interrupt)
{
	for (int i = 0; i < INTERRUPT_SIGNALS; i++)
		sigaction(signals[i], &interrupt->before[i], NULL);
	running = NULL;
}

bool interrupt_seen(void)
{
	return seen;
}

int interrupt_said(void)
{
	log_msg("interrupted");
	return -EINTR;
}
