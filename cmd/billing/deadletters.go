package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// maxLetters bounds what one command changes, and the ids that it keeps in memory.
const maxLetters = 10_000

func newDeadLettersCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletters",
		Short: "Look at refused messages, and replay or discard them",
		Long: `A dead letter is a message that was refused, with its bytes. What looks like a card number in it was
replaced by asterisks before it was stored; such a letter cannot be replayed.`,
		Example: `  billing deadletters list --group
  billing deadletters show 17 --payload
  billing deadletters replay --reason unsupported_event_type --canary 1
  billing deadletters discard --id 17 --because "test order"`,
	}
	cmd.AddCommand(
		newLettersListCommand(environ), newLettersShowCommand(environ), newLettersReplayCommand(environ), newLettersDiscardCommand(environ),
	)
	return cmd
}

// letterFlags select dead letters.
type letterFlags struct {
	filter usecase.LetterFilter
	reason *choice
	since  string
}

func addLetterFlags(cmd *cobra.Command, limit int) *letterFlags {
	f := &letterFlags{reason: &choice{}}
	for _, r := range domain.Reasons() {
		f.reason.words = append(f.reason.words, string(r))
	}
	cmd.Flags().Int64SliceVar(&f.filter.IDs, "id", nil, "only this one; may be repeated")
	cmd.Flags().Var(f.reason, "reason", "only this reason of refusal")
	cmd.Flags().StringVar(&f.filter.Topic, "topic", "", "only of this topic")
	cmd.Flags().StringVar(&f.since, "since", "", "only refused since then: a duration such as 24h, or a time in RFC 3339")
	cmd.Flags().IntVar(&f.filter.Limit, "limit", limit, "at most this many, the oldest first")
	return f
}

// read checks the flags.
func (f *letterFlags) read() (usecase.LetterFilter, error) {
	if f.filter.Limit < 1 || f.filter.Limit > maxLetters {
		return f.filter, &exitError{exitUsage, fmt.Errorf("--limit wants 1 to %d", maxLetters)}
	}
	f.filter.Reason = domain.Reason(f.reason.value)
	var err error
	f.filter.Since, err = sinceFlag(f.since)
	return f.filter, err
}

// sinceFlag reads a duration before now, or a time; the zero time when there is none.
func sinceFlag(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &exitError{exitUsage, errors.New("--since wants a duration such as 24h, or a time such as 2026-01-02T03:04:05Z")}
	}
	return at, nil
}

func newLettersListCommand(environ []string) *cobra.Command {
	var group bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest first, without their payload",
		Example: `  billing deadletters list --since 24h
  billing deadletters list --group --output json
  billing deadletters list --status any --topic order-service.order.confirmed`,
	}
	f, output := addLetterFlags(cmd, 50), outputFlag(cmd, "table", "json")
	status := &choice{value: string(usecase.LetterOpen), words: []string{"open", "replayed", "discarded", "any"}}
	cmd.Flags().Var(status, "status", "only this status")
	cmd.Flags().BoolVar(&group, "group", false, "count them by reason, topic and hour")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, err := f.read()
		if err != nil {
			return err
		}
		if filter.Status = usecase.LetterStatus(status.value); status.value == "any" {
			filter.Status = ""
		}
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
			defer cancel()
			if group {
				list, err := store.GroupLetters(ctx, filter)
				return show(cmd, output, list, err, writeLetterGroups)
			}
			list, err := store.ListLetters(ctx, filter)
			return show(cmd, output, list, err, writeLetters)
		})
	}
	return cmd
}

func writeLetters(w io.Writer, list []usecase.LetterRecord) error {
	t := newTable(w, "ID", "REASON", "TOPIC", "PARTITION", "OFFSET", "EVENT", "STATUS", "REFUSED", "DETAIL")
	for _, l := range list {
		t.row(l.ID, l.Reason, l.Topic, l.Partition, l.Offset, idText(l.EventID.Valid, l.EventID.UUID), l.Status, l.CreatedAt, l.Detail)
	}
	return t.Flush()
}

func idText(valid bool, id fmt.Stringer) string {
	if !valid {
		return ""
	}
	return id.String()
}

func writeLetterGroups(w io.Writer, list []usecase.LetterGroup) error {
	t := newTable(w, "HOUR", "REASON", "TOPIC", "NUMBER", "FIRST ID", "LAST ID")
	for _, g := range list {
		t.row(g.Hour, g.Reason, g.Topic, g.N, g.First, g.Last)
	}
	return t.Flush()
}

// letterView is a dead letter in JSON, with the payload when it was asked for. What is no text is base64.
type letterView struct {
	usecase.LetterRecord
	Payload *payloadView `json:"payload,omitempty"`
}

type payloadView struct {
	Key     *string      `json:"key"`
	Value   *string      `json:"value"`
	Headers []headerView `json:"headers"`
	Base64  bool         `json:"base64"` // key, value and headers are
}

type headerView struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

func viewPayload(p usecase.LetterPayload) *payloadView {
	p = p.Masked()
	v := &payloadView{Headers: make([]headerView, 0, len(p.Headers))}
	v.Base64 = !utf8.Valid(p.Key) || !utf8.Valid(p.Value)
	for _, h := range p.Headers {
		v.Base64 = v.Base64 || !utf8.Valid(h.Value)
	}
	bytes := func(b []byte) *string {
		switch {
		case b == nil:
			return nil
		case v.Base64:
			return new(base64.StdEncoding.EncodeToString(b))
		}
		return new(string(b))
	}
	v.Key, v.Value = bytes(p.Key), bytes(p.Value)
	for _, h := range p.Headers {
		v.Headers = append(v.Headers, headerView{h.Key, bytes(h.Value)})
	}
	return v
}

func newLettersShowCommand(environ []string) *cobra.Command {
	var withPayload bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter; its payload only with --payload",
		Example: `  billing deadletters show 17
  billing deadletters show 17 --payload --output json`,
		Args: usageArgs(1),
	}
	output := outputFlag(cmd, "table", "json")
	cmd.Flags().BoolVar(&withPayload, "payload", false, "also key, value and headers, which may hold personal data")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return &exitError{exitUsage, errors.New("the id of a dead letter is a number")}
		}
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
			defer cancel()
			view := letterView{}
			if view.LetterRecord, err = store.Letter(ctx, id); err != nil {
				return err
			}
			if withPayload {
				payload, err := store.LetterPayload(ctx, id)
				if err != nil {
					return err
				}
				view.Payload = viewPayload(payload)
			}
			if output.value == "json" {
				return writeJSON(cmd.OutOrStdout(), view)
			}
			return writeLetter(cmd.OutOrStdout(), view)
		})
	}
	return cmd
}

func writeLetter(w io.Writer, l letterView) error {
	t := newTable(w)
	for _, line := range [][2]any{
		{"dead letter", l.ID},
		{"reason", l.Reason},
		{"detail", l.Detail},
		{"read from", fmt.Sprintf("%s/%d offset %d", l.Topic, l.Partition, l.Offset)},
		{"group", l.Group},
		{"event", idText(l.EventID.Valid, l.EventID.UUID)},
		{"message time", l.MessageTime},
		{"refused", l.CreatedAt},
		{"copied to Kafka", l.PublishedAt},
		{"card numbers masked", l.Masked},
		{"status", l.Status},
		{"resolved", l.ResolvedAt},
		{"resolved by", l.ResolvedBy},
		{"because", l.ResolvedReason},
	} {
		t.row(line[0], line[1])
	}
	if p := l.Payload; p != nil {
		t.row("base64", p.Base64)
		t.row("key", p.Key)
		for _, h := range p.Headers {
			t.row("header "+h.Key, h.Value)
		}
		t.row("value", p.Value)
	}
	return t.Flush()
}
