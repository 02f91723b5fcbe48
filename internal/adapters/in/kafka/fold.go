package kafka

import (
	"unicode"
	"unicode/utf8"
)

// isFolded reports whether a name is its own folded form; it may deny it of a name that is.
func isFolded(name []byte) bool {
	for _, c := range name {
		if c >= utf8.RuneSelf || ('A' <= c && c <= 'Z') {
			return false
		}
	}
	return true
}

// fold returns name as a reader that does not care for case sees it: two names are variants of each other
// when their folded forms are equal.
func fold(name []byte) string {
	folded := make([]byte, 0, len(name))
	for n := 0; n < len(name); {
		c := name[n]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(name[n:])
			folded = utf8.AppendRune(folded, foldRune(r))
			n += size
			continue
		}
		folded = append(folded, lower(c))
		n++
	}
	return string(folded)
}

// foldRune brings every spelling of a letter to one. Upper case first and lower case after it is how
// Java's readers compare; it also takes the long s for s, the Kelvin sign for k and both Turkish letters for i,
// which matters because those stand for letters of the contracts' names. The smallest rune of the
// orbit then does what Go's readers do.
func foldRune(r rune) rune {
	r = unicode.ToLower(unicode.ToUpper(r))
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return unicode.ToLower(smallest)
}

// maxCompared is how many names of one object are compared in place. A hostile object with very many
// must not cost their square.
const maxCompared = 24

// repeats reports whether two of an object's names are variants of each other.
func repeats(names [][]byte) bool {
	if len(names) > maxCompared {
		seen := make(map[string]struct{}, len(names))
		for _, name := range names {
			seen[fold(name)] = struct{}{}
		}
		return len(seen) < len(names)
	}
	for i, name := range names {
		for _, other := range names[:i] {
			if variants(name, other) {
				return true
			}
		}
	}
	return false
}

// variants reports whether two names have the same folded form. Plain letters are compared in place,
// since that decides nearly every pair at its first letter.
func variants[A, B []byte | string](a A, b B) bool {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] >= utf8.RuneSelf || b[i] >= utf8.RuneSelf {
			return fold([]byte(a)) == fold([]byte(b))
		}
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
