package kafka

// isRFC3339 reports whether s is a date-time of RFC 3339, section 5.6: with zone, with a point before the
// fraction, with T and Z in either case as the RFC has it, and an instant that exists. The standard
// library's parser takes a comma, one digit for the hour and zones of any size.
func isRFC3339(s []byte) bool {
	const form = "0000-00-00T00:00:00"
	if len(s) < len(form)+1 || !matches(s[:len(form)], form) {
		return false
	}
	rest := s[len(form):]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if n == 1 {
			return false
		}
		rest = rest[n:]
	}
	offset, ok := zoneMinutes(rest)
	year, month, day := number(s[0:4]), number(s[5:7]), number(s[8:10])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if !ok || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 {
		return false
	}
	const dayMinutes = 24 * 60
	utc := (hour*60 + minute - offset + dayMinutes) % dayMinutes
	return second <= 59 || (second == 60 && utc == dayMinutes-1) // a leap second ends a day of UTC
}

// zoneMinutes reads Z or the signed offset of a zone.
func zoneMinutes(s []byte) (int, bool) {
	if len(s) == 1 {
		return 0, s[0] == 'Z' || s[0] == 'z'
	}
	if len(s) != 6 || (s[0] != '+' && s[0] != '-') || !matches(s[1:], "00:00") {
		return 0, false
	}
	hours, minutes := number(s[1:3]), number(s[4:6])
	offset := hours*60 + minutes
	if s[0] == '-' {
		offset = -offset
	}
	return offset, hours <= 23 && minutes <= 59
}

// matches reports whether s has the form, in which 0 is any digit and T either case of it.
func matches(s []byte, form string) bool {
	if len(s) != len(form) {
		return false
	}
	for i, c := range s {
		switch form[i] {
		case '0':
			if !isDigit(c) {
				return false
			}
		case 'T':
			if c != 'T' && c != 't' {
				return false
			}
		default:
			if c != form[i] {
				return false
			}
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number returns the value of a few ASCII digits.
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	default:
		return 31
	}
}
