// Package testkit gives tests and the demo the real things: PostgreSQL, Apache Kafka, an in-process Kafka, a TCP proxy that
// breaks connections, and the built binaries. It starts what it needs, uses no server that it was not told to use, and lets
// nothing outlive the process.
package testkit
