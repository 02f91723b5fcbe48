package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"billing/internal/paysim"
)

// judge runs the service's own audit, and then one that asks nobody of the service.
func (d *demo) judge(ctx context.Context) (summary, error) {
	s := summary{produced: len(d.sent), kills: d.kills, settling: d.settled, busiest: d.busiest}
	var err error
	if s.auditOK, s.audit, err = d.serviceAudit(ctx); err != nil {
		return s, err
	}
	f := facts{sent: d.sent}
	if f.announcements, err = readAnnouncements(ctx, d.brokers); err != nil {
		return s, err
	}
	if f.letters, err = readLetters(ctx, d.brokers); err != nil {
		return s, err
	}
	if f.journal, err = paysim.ReadJournal(d.file("provider.jsonl")); err != nil {
		return s, err
	}
	s.verdict = judge(f)
	d.out.step("compared the journals of producer and provider with %s results and %d dead letters", grouped(len(f.announcements)), len(f.letters))
	return s, nil
}

// serviceAudit runs `billing audit --provider`. Everything is settled, so nothing needs a period of grace.
func (d *demo) serviceAudit(ctx context.Context) (ok bool, said string, err error) {
	begun := time.Now()
	code, output, err := d.verb(ctx, "audit", "--provider", "--grace", "0s")
	if err != nil {
		return false, "", err
	}
	if code != 0 {
		d.out.printf("%s", output)
		return false, fmt.Sprintf("exit code %d", code), nil
	}
	lines := strings.Split(output, "\n")
	d.out.step("billing audit --provider: passed in %.1f s", time.Since(begun).Seconds())
	return true, lines[len(lines)-1], nil
}
