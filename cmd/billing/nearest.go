package main

import "strings"

// nearest returns the known name that a misspelt one most likely means, or nothing when none is close.
func nearest(name string, known []string) string {
	best, least := "", max(3, len(strings.TrimPrefix(name, prefix))/3)+1
	for _, candidate := range known {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the number of insertions, deletions and replacements that make a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
