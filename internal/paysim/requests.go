package paysim

import "slices"

// requestLog holds the latest requests and counts all of them.
type requestLog struct {
	latest   []*Request
	keep     int
	received int64
	answered int64
}

func (l *requestLog) add(r *Request) {
	l.received++
	r.Seq = l.received
	l.append(r)
}

// append trims only when a quarter too many are kept, so that its cost stays constant.
func (l *requestLog) append(r *Request) {
	if most := l.keep + l.keep/4 + 1; len(l.latest) >= most {
		l.latest = append(make([]*Request, 0, most), l.latest[len(l.latest)-l.keep+1:]...)
	}
	l.latest = append(l.latest, r)
}

func (l *requestLog) restore(r Request) {
	l.received = max(l.received, r.Seq)
	l.answered++
	l.append(&r)
}

// snapshot copies the requests in the order of arrival.
func (l *requestLog) snapshot() []Request {
	latest := l.latest[max(0, len(l.latest)-l.keep):]
	all := make([]Request, len(latest))
	for i, r := range latest {
		all[i] = *r
	}
	slices.SortFunc(all, func(a, b Request) int { return int(a.Seq - b.Seq) })
	return all
}
