// Package charging drives claim, send, settle and the operator's moves by random steps, crashes, stalls,
// lost answers, late effects and restores, on a model of the queue and, in lockstep, on real PostgreSQL.
package charging
