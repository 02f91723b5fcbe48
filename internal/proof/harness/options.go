// Package harness runs the real binary on real components, breaks everything around it, and audits what
// came of it from four independent facts: what the producer was acknowledged, what the provider did, what
// was announced on Kafka, and what the tables say.
package harness

import (
	"fmt"
	"io"
	"time"
)

// Options say what to run.
type Options struct {
	// Duration is how long things are broken; healing, audit and the restored database come after it.
	Duration time.Duration
	// Seed decides what is broken when, and what is produced.
	Seed uint64
	// Kafka is apache or kfake.
	Kafka string
	// Rate is how many events are produced each second.
	Rate int
	// Calm is how much longer than usual processes live and dependencies stay whole; 1 is usual.
	Calm int
	// Quick is the short form for one mutant: fixed faults, and short leases and windows.
	Quick bool
	// Mutant is what the processes are, empty for the service as it is.
	Mutant string
	// Idle injects nothing: a run that has to fail, because it proves nothing.
	Idle bool
	// Logs is a folder for what each process logs; empty keeps nothing.
	Logs string
	// Out gets the progress and the report.
	Out io.Writer
}

// timing is the configuration of the processes that decides how long faults take.
type timing struct {
	session, lease, relayLease, timeout, window time.Duration
	concurrency                                 int
}

func (o Options) timing() timing {
	if o.Quick {
		return timing{
			session: 6 * time.Second, lease: 5600 * time.Millisecond, relayLease: 10 * time.Second,
			timeout: 300 * time.Millisecond, window: 13 * time.Second, concurrency: 8,
		}
	}
	return timing{
		session: 6 * time.Second, lease: 9 * time.Second, relayLease: 10 * time.Second,
		timeout: 2 * time.Second, window: 24 * time.Hour, concurrency: 16,
	}
}

func (t timing) env() []string {
	return []string{
		"BILLING_KAFKA_SESSION_TIMEOUT=" + t.session.String(),
		"BILLING_CHARGE_LEASE=" + t.lease.String(),
		"BILLING_RELAY_LEASE=" + t.relayLease.String(),
		"BILLING_PROVIDER_TIMEOUT=" + t.timeout.String(),
		"BILLING_PROVIDER_KEY_WINDOW=" + t.window.String(),
		fmt.Sprintf("BILLING_PROVIDER_CONCURRENCY=%d", t.concurrency),
		"BILLING_RETRY_MIN=20ms",
		"BILLING_RETRY_MAX=500ms",
		"BILLING_SHUTDOWN_TIMEOUT=25s",
		"BILLING_DEAD_LETTER_BRAKE=0",
	}
}
