package main

import (
	"errors"
	"slices"
	"strings"
)

// choice is a flag that takes one of a few words; any other is a usage error.
type choice struct {
	value string
	words []string
}

// String returns the chosen word.
func (c *choice) String() string { return c.value }

// Set chooses a word.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return errors.New("want one of " + strings.Join(c.words, ", "))
	}
	c.value = word
	return nil
}

// Type lists the words, for the help.
func (c *choice) Type() string { return strings.Join(c.words, "|") }
