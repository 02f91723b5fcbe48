package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"billing/internal/core/usecase"
)

const (
	// presenceEvery is well below the half minute after which a silent process is not shown any more.
	presenceEvery = 3 * time.Second
	// farewellTimeout bounds the last word of a process that stops: without it the others wait half a minute.
	farewellTimeout = time.Second
)

// presence tells the database that this process runs and how its gate stands, for `billing status`.
func (s *service) presence() part {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	me := usecase.ProcessState{ID: newID(), Host: host, Version: buildInfo().Version, Roles: strings.Join(s.cfg.Roles, ",")}
	p := s.loop("presence", presenceEvery, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, dbTimeout)
		defer cancel()
		if s.cfg.Roles.Has(RoleCharger) {
			if me.Gate = s.gateReason(); me.Gate == "" {
				me.Gate = string(usecase.GateOpen)
			}
		}
		return s.queue.ProcessSeen(ctx, me)
	})
	work := p.run
	p.run = func(ctx context.Context) error {
		err := work(ctx)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
		defer cancel()
		if err := s.queue.ProcessGone(last, me.ID); err != nil {
			s.log.InfoContext(ctx, "the others take this process for running for a while", "error", err)
		}
		return err
	}
	return p
}

// forgetProcesses removes what killed processes left, for the maintenance role.
func (s *service) forgetProcesses() part {
	return s.loop("processes", time.Hour, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, dbTimeout)
		defer cancel()
		_, err := s.queue.ForgetProcesses(ctx)
		return err
	})
}

func writeProcesses(w io.Writer, o usecase.Overview) error {
	t := newTable(w, "PROCESS", "ROLES", "VERSION", "GATE", "SINCE", "STARTED", "SEEN")
	for _, p := range o.Processes {
		t.row(p.Host, p.Roles, p.Version, p.Gate, p.GateSince, p.StartedAt, p.SeenAt)
	}
	if len(o.Processes) == 0 {
		t.row("none was seen for 30 seconds")
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the processes: %w", err)
	}
	return nil
}
