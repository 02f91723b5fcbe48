// Package bench measures what charging costs, each figure next to what it is compared with, in interleaved
// rounds of one run: `make bench-charge`. Rates depend on the machine, ratios much less.
package bench
