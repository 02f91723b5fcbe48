// Package crash proves the promises of the service on the real binary: processes are killed, databases
// go back in time, the provider loses answers, and the audit reads the provider's and the producer's
// journals, never our tables alone.
package crash
