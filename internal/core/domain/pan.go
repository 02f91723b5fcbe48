package domain

import "slices"

// How many digits a card number has (ISO/IEC 7812).
const (
	minCardDigits = 13
	maxCardDigits = 19
)

// MaskCards returns text with the digits of everything that looks like a card number replaced by asterisks,
// and whether there was any: a run of 13 to 19 digits, not part of a longer one, with a valid check digit, written
// in one piece or in groups with a space or a hyphen between them. Runs that are one of ids are left: an id may have
// a valid check digit by chance. text is not changed; without a finding it is returned as it is.
func MaskCards(text []byte, ids ...string) ([]byte, bool) {
	masked, found := text, false
	for i := 0; i < len(text); i++ {
		if !isDigit(text[i]) {
			continue
		}
		end, card := cardEnd(text, i, ids)
		if !card {
			i = end - 1
			continue
		}
		if !found {
			masked, found = slices.Clone(text), true
		}
		for at := i; at < end; at++ {
			if isDigit(masked[at]) {
				masked[at] = '*'
			}
		}
		i = end - 1
	}
	return masked, found
}

// cardEnd returns the end of the digits that begin at start, and whether they are a card number: in one piece, or
// else together with the groups that follow.
func cardEnd(text []byte, start int, ids []string) (int, bool) {
	end := digitsEnd(text, start)
	if isCard(text[start:end]) && !slices.Contains(ids, string(text[start:end])) {
		return end, true
	}
	if grouped := groupsEnd(text, start); grouped > end && isCard(text[start:grouped]) {
		return grouped, true
	}
	return end, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-'
}

func digitsEnd(text []byte, start int) int {
	for start < len(text) && isDigit(text[start]) {
		start++
	}
	return start
}

// groupsEnd returns the end of groups of 3 to 7 digits that begin at start, with one space or one hyphen
// between them, or start when there is no such row or it is part of a longer word, as in a UUID.
func groupsEnd(text []byte, start int) int {
	if start > 0 && isWord(text[start-1]) {
		return start
	}
	end := digitsEnd(text, start)
	if end >= len(text) || (text[end] != ' ' && text[end] != '-') {
		return start
	}
	separator := text[end]
	for from := start; ; from = end + 1 {
		end = digitsEnd(text, from)
		if size := end - from; size < 3 || size > 7 {
			return start
		}
		if end+1 >= len(text) || text[end] != separator || !isDigit(text[end+1]) {
			break
		}
	}
	if end < len(text) && isWord(text[end]) {
		return start
	}
	return end
}

// isCard tells by length and check digit (Luhn). No card number begins with a zero.
func isCard(text []byte) bool {
	if len(text) < minCardDigits || text[0] == '0' {
		return false
	}
	digits, sum := 0, 0
	for _, c := range slices.Backward(text) {
		if !isDigit(c) {
			continue
		}
		n := int(c - '0')
		if digits%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
		digits++
	}
	return digits >= minCardDigits && digits <= maxCardDigits && sum%10 == 0
}
